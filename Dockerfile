# syntax=docker/dockerfile:1
# Two images from one file:
#
#   docker buildx build --target fleet       -t fleetworkspace/fleet       .
#   docker buildx build --target fleet-agent -t fleetworkspace/fleet-agent .
#
# or without a daemon, also inside a container:
#
#   buildah bud --isolation chroot --target fleet -t fleetworkspace/fleet .
#
# for several architectures with --platform linux/amd64,linux/arm64; programs are
# compiled across, nothing is emulated. Modules come from another proxy than Go's
# with --build-arg GOPROXY=URL. The same source gives the same image with
#
#   --build-arg SOURCE_DATE_EPOCH=$(git log -1 --format=%ct) --output type=image,rewrite-timestamp=true
#
# (docker buildx; buildah has --timestamp).
#
# What is in the images, hack/image decides: static programs, a CA bundle and the
# list of what they were made of (/usr/share/sbom); no shell, no git, no package
# manager. hack/image makes the same images without a container engine.
FROM --platform=$BUILDPLATFORM golang:1.26 AS source
WORKDIR /src
ARG GOPROXY
COPY go.mod go.sum ./
RUN go mod download
COPY . .

FROM source AS build
ARG TARGETARCH
ARG VERSION=dev
ARG COMMIT=unknown
ARG SOURCE_DATE_EPOCH=0
RUN go run ./hack/image -rootfs /out -arch "$TARGETARCH" -version "$VERSION" -commit "$COMMIT" -epoch "$SOURCE_DATE_EPOCH" && \
    find /out -exec touch --date="@$SOURCE_DATE_EPOCH" {} +

FROM scratch AS fleet-agent
COPY --from=build /out/fleet-agent/ /
ENV PATH=/usr/bin
USER 1000:1000
ENTRYPOINT ["/usr/bin/fleet-agent"]

FROM scratch AS fleet
COPY --from=build /out/fleet/ /
ENV PATH=/usr/bin
USER 1000:1000
ENTRYPOINT ["/usr/bin/fleet-controller"]
