# go-rabbitmq's integration test. It starts its broker with `docker` on port 5672: the script of that name makes the port a relay.
# The test drops what arrives while it waits for a confirm, and fails now and then everywhere: one of three runs must pass.
export GOMODCACHE=$CACHE/go/mod GOCACHE=$CACHE/go/build GOFLAGS="-mod=readonly -modcacherw" GOTOOLCHAIN=local
cd "$GOMODCACHE"/github.com/wagslane/go-rabbitmq@*
export PATH=$HERE/go-rabbitmq:$PATH ENABLE_DOCKER_INTEGRATION_TESTS=TRUE
for _ in 1 2 3; do
  if said=$(go test -count=1 -v -timeout 300s . 2>&1); then break; fi
done
echo "$said"
grep -q '^--- PASS: TestSimplePubSub' <<< "$said"
