# Watermill's AMQP module with all its tests.
export GOMODCACHE=$CACHE/go/mod GOCACHE=$CACHE/go/build GOFLAGS="-mod=readonly -modcacherw" GOTOOLCHAIN=local
cd "$GOMODCACHE"/github.com/\!three\!dots\!labs/watermill-amqp/v3@*
WATERMILL_TEST_AMQP_URI=$URL go test -count=1 -short -v -timeout 600s ./...
