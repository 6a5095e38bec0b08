"""partition.json: says which partition a log's directory holds; the directory's name is only made of it."""

from __future__ import annotations

from typing import Final

from dataplane.storage.checked_json import CorruptJson, decode_checked, encode_checked
from dataplane.storage.disk import Disk, read_whole
from dataplane.storage.log_dir_identity import LogDirRefused
from dataplane.storage.log_settings import PartitionId

PARTITION_FILE: Final = "partition.json"
PARTITION_FILE_BYTES_MAX: Final = 64 * 1024
TOPIC_PREFIX_MAX: Final = 180


def partition_directory(partition: PartitionId) -> str:
    """Return the directory's name, at most 180 + 1 + 10 + 1 + 22 characters. The topic comes first for people
    (and because a topic id may begin with "-"); topic id and partition make the name unique.
    """
    return f"{partition.topic[:TOPIC_PREFIX_MAX]}-{partition.partition}.{partition.topic_id}"


def encode_partition(partition: PartitionId) -> bytes:
    return encode_checked(partition._asdict())


def read_partition(disk: Disk, directory: str) -> PartitionId:
    """Return the partition that a directory holds. Raise LogDirRefused if it does not say, OSError,
    NewerFormat."""
    path = f"{directory}/{PARTITION_FILE}"
    encoded = read_whole(disk, path, bytes_max=PARTITION_FILE_BYTES_MAX)
    if encoded is None:
        raise LogDirRefused(f"no {PARTITION_FILE}")
    try:
        fields = decode_checked(encoded, path)
    except CorruptJson as error:
        raise LogDirRefused(f"{PARTITION_FILE}: {error}") from None
    topic_id, topic, partition = (fields.get(name) for name in PartitionId._fields)
    if not (isinstance(topic_id, str) and isinstance(topic, str) and isinstance(partition, int)):
        raise LogDirRefused(f"{PARTITION_FILE} lacks a field")
    return PartitionId(topic_id, topic, partition)
