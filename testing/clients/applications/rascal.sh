# Rascal publishes no tests in its package: these are samples of what its users write.
NODE_PATH=$APPS/node/node_modules node --test --test-reporter=tap "$HERE/rascal.test.js"
