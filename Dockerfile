# resumelb in a container: docs/install.md. The packages are made in the first stage, with what building needs, and installed in
# the others, with nothing else.
#
#     docker build -t resumelb .                                                # the load balancer
#     docker build -t resumelb-poolcounter --target resumelb-poolcounter .      # the pool counter daemon

FROM debian:bookworm-slim AS build
WORKDIR /usr/src/resumelb
# What is installed changes less often than what is built.
COPY dev/install-deps dev/install-deps
RUN apt-get update && dev/install-deps package && rm -rf /var/lib/apt/lists/*
COPY . .
RUN dev/make-deb /packages

FROM debian:bookworm-slim AS resumelb-poolcounter
COPY --from=build /packages/resumelb-poolcounter_*.deb /packages/resumelb-tools_*.deb /packages/
# The first one makes the user without the whole of systemd.
RUN apt-get update \
    && apt-get install -y --no-install-recommends systemd-standalone-sysusers /packages/*.deb \
    && rm -rf /var/lib/apt/lists/* /packages
USER resumelb-poolcounter
EXPOSE 7531
ENTRYPOINT ["/usr/bin/resumelb-poolcounter"]
CMD ["-l", "0.0.0.0:7531"]

# The last stage is what `docker build` makes.
FROM debian:bookworm-slim AS resumelb
COPY --from=build /packages/resumelb_*.deb /packages/resumelb-common_*.deb /packages/resumelb-tools_*.deb /packages/
# The two make user and directories without the whole of systemd.
RUN apt-get update \
    && apt-get install -y --no-install-recommends systemd-standalone-sysusers systemd-standalone-tmpfiles /packages/*.deb \
    && rm -rf /var/lib/apt/lists/* /packages
USER resumelb
VOLUME /var/lib/resumelb
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=5s CMD ["/usr/bin/resumelbctl", "--timeout", "3", "status"]
# SIGTERM drains, which is what `docker stop` sends.
ENTRYPOINT ["/usr/bin/resumelb"]
CMD ["-c", "/etc/resumelb/resumelb.yaml"]
