# One image for all: `controller serve ...`, `dataplane serve ...`, `coordinator serve ...`. ZooKeeper and PostgreSQL are images of
# their own; no Java is needed here.
# A tag is built anew when Debian mends something; to have the very bytes again, add the digest of the day.
FROM python:3.13.16-slim-trixie AS build
# The newest compiler that this Debian has; what is compiled is named by its hash.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /build
COPY requirements.lock ./
RUN python -m venv --without-pip /opt/springtide \
    && pip --python /opt/springtide install --no-cache-dir --require-hashes -r requirements.lock
COPY pyproject.toml README.md LICENSE ./
COPY controller controller
COPY admin_api admin_api
COPY dataplane dataplane
COPY coordinator coordinator
COPY migrations migrations
COPY localcluster localcluster
COPY springtide springtide
COPY pipeline pipeline
COPY pyspark_springtide pyspark_springtide
RUN pip --python /opt/springtide install --no-cache-dir --no-deps --no-build-isolation . \
    && pip --python /opt/springtide uninstall --yes setuptools \
    && /opt/springtide/bin/python -P -c 'import springtide.native._records, springtide.native._requests'

FROM python:3.13.16-slim-trixie
# Nothing is installed in a container. A number and no name: Kubernetes can't tell whether a name is root.
RUN rm -rf /usr/local/bin/pip* /usr/local/lib/python3.13/site-packages/pip* /usr/local/lib/python3.13/ensurepip \
    && groupadd --gid 10001 springtide \
    && useradd --uid 10001 --gid 10001 --home-dir /var/lib/springtide --shell /usr/sbin/nologin --no-log-init springtide \
    && install --directory --owner 10001 --group 10001 --mode 0750 /var/lib/springtide
COPY --from=build /opt/springtide /opt/springtide
# Processes write in their data directory and in /tmp only: the root may be read-only.
ENV PATH=/opt/springtide/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONSAFEPATH=1
USER 10001:10001
WORKDIR /var/lib/springtide
VOLUME /var/lib/springtide
# controller: 8080; broker: 9092; coordinator: 9192; the metrics of both: 9404
EXPOSE 8080 9092 9192 9404
# Of a controller. Name the page of another process: HEALTH_URL=http://127.0.0.1:9404/healthz with --metrics-listen 0.0.0.0:9404.
HEALTHCHECK --interval=10s --timeout=3s --start-period=60s \
    CMD ["python", "-c", "import os, urllib.request as web; web.urlopen(os.environ.get('HEALTH_URL', 'http://127.0.0.1:8080/healthz'), timeout=2)"]
