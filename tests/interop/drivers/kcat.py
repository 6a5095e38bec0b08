"""kcat: librdkafka as the system has it, on the command line."""

from __future__ import annotations

import re
from typing import Any

from tests.interop.drivers.answer import serve
from tests.interop.drivers.command import lines_to_write, records_of, run
from tests.interop.drivers.login import OAUTHBEARER, librdkafka_settings
from tests.interop.drivers.members import Prints, return_static, share

Asked = dict[str, Any]


class Kcat:
    """The calls of rows.py that it has a flag for."""

    def version(self, asked: Asked) -> str:
        found = re.search(r"Version (\S+).*librdkafka (\S+)", run(["kcat", "-V"]), re.DOTALL)
        assert found is not None
        return f"{found[1]}, librdkafka {found[2]}"

    def connect(self, asked: Asked) -> int:
        found = re.search(r"(\d+) brokers:", self._run(asked, "-L"))
        return int(found[1]) if found else 0

    def list_topics(self, asked: Asked) -> list[str]:
        return re.findall(r'topic "([^"]+)"', self._run(asked, "-L"))

    def produce(self, asked: Asked) -> None:
        flags = ["-P", "-t", asked["topic"], "-p", "0", "-K", "\t", "-z", asked["codec"]]
        idempotence = f"enable.idempotence={str(asked['idempotent']).lower()}"
        given = lines_to_write(asked["count"])
        self._run(asked, *flags, "-X", "acks=all", "-X", idempotence, given=given)

    def fetch(self, asked: Asked) -> list[list[str]]:
        where = ["-C", "-t", asked["topic"], "-p", "0", "-o", "beginning", "-c", str(asked["count"])]
        return records_of(self._run(asked, *where, "-q", "-X", "check.crcs=true", "-f", r"%k\t%s\n"))

    def offset_by_time(self, asked: Asked) -> int:
        printed = self._run(asked, "-Q", "-t", f"{asked['topic']}:0:{asked['timestamp_ms']}")
        return int(printed.split()[-1])

    def group_share(self, asked: Asked) -> dict[str, Any]:
        return share(lambda instance: self._take_part(asked, instance))

    def group_static(self, asked: Asked) -> dict[str, Any]:
        return return_static(lambda instance: self._take_part(asked, instance))

    def _take_part(self, asked: Asked, instance: str) -> Prints:
        static = ["-X", f"group.instance.id={instance}"] if instance else []
        flags = ["-X", "heartbeat.interval.ms=500", *static, "-G", asked["group"], asked["topic"]]
        return Prints(["kcat", "-b", asked["bootstrap"], *flags], _read_rebalance)

    def group_resume(self, asked: Asked) -> list[list[str]]:
        self._read_as_group(asked, asked["offset"])
        return self._read_as_group(asked, asked["count"] - asked["offset"])

    def _read_as_group(self, asked: Asked, count: int) -> list[list[str]]:
        """It commits where it is when it ends."""
        flags = ["-X", "auto.offset.reset=earliest", "-X", "check.crcs=true", "-q", "-c", str(count)]
        group = ["-f", r"%k\t%s\n", "-G", asked["group"], asked["topic"]]
        return records_of(self._run(asked, *flags, *group))

    def _run(self, asked: Asked, *arguments: str, given: str = "") -> str:
        login = asked["login"]
        if login and login["mechanism"] == OAUTHBEARER:
            raise NotImplementedError("it fetches tokens itself, from a provider by OpenID Connect")
        get_in = [part for item in librdkafka_settings(asked).items() for part in ("-X", "=".join(item))]
        return run(["kcat", "-b", asked["bootstrap"], *get_in, *arguments], given=given)


def _read_rebalance(line: str, member: Prints) -> None:
    found = re.search(r"rebalanced \(memberid .*\): (assigned|revoked):(.*)", line)
    if found is None:
        return
    if found[1] == "assigned":
        member.assigned([int(number) for number in re.findall(r"\[(\d+)\]", found[2])])
    else:
        member.revoked()


if __name__ == "__main__":
    serve(Kcat())
