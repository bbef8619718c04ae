# The manager and the speaker in one image. `make images` makes the same without a container engine.
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY api api
COPY cmd cmd
COPY controllers controllers
COPY internal internal
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o /out/ ./cmd/manager ./cmd/speaker

FROM scratch
COPY --from=build /out/manager /out/speaker /
USER 65532:65532
ENTRYPOINT ["/manager"]
