# One image for all: `controller serve ...`, `dataplane serve ...`, `coordinator serve ...`. ZooKeeper and PostgreSQL are images of
# their own; no Java is needed here.
# A tag is built anew when Debian mends something; who needs the very bytes adds the digest of the day.
FROM python:3.13.16-slim-trixie

RUN useradd --system --create-home --home-dir /var/lib/springtide springtide
WORKDIR /opt/springtide
COPY requirements.lock ./
RUN pip install --no-cache-dir --require-hashes -r requirements.lock
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
# The compiler is for the native part only, and does not stay in the image.
RUN apt-get update \
    && apt-get install -y --no-install-recommends gcc libc6-dev \
    && pip install --no-cache-dir --no-deps --no-build-isolation . \
    && python -P -c 'import springtide.native._records' \
    && apt-get purge -y --auto-remove gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*

USER springtide
WORKDIR /var/lib/springtide
VOLUME /var/lib/springtide
# controller: 8080; broker, coordinator: 9092; their metrics: 9404
EXPOSE 8080 9092 9404
