# Two images from one file:
#   docker build --target fleet       -t fleetworkspace/fleet       .
#   docker build --target fleet-agent -t fleetworkspace/fleet-agent .
# Both hold static binaries and a CA bundle, and nothing else: no shell, no git.
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=dev
ARG COMMIT=unknown
ENV CGO_ENABLED=0
RUN for b in fleet fleet-controller fleet-agent; do \
      go build -trimpath -o /out/$b \
        -ldflags "-s -w -X github.com/fleetworkspace/fleet/pkg/plan/version.Version=$VERSION -X github.com/fleetworkspace/fleet/pkg/plan/version.Commit=$COMMIT" \
        ./cmd/$b || exit 1; \
    done && mkdir -m 1777 /out/tmp

FROM scratch AS fleet-agent
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /out/tmp /tmp
COPY --from=build /out/fleet-agent /usr/bin/
ENV PATH=/usr/bin
USER 1000:1000
ENTRYPOINT ["/usr/bin/fleet-agent"]

FROM scratch AS fleet
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /out/tmp /tmp
COPY --from=build /out/fleet /out/fleet-controller /usr/bin/
ENV PATH=/usr/bin
USER 1000:1000
ENTRYPOINT ["/usr/bin/fleet-controller"]
