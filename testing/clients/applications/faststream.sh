# FastStream publishes no tests in its packages: these are samples of what its users write.
cd "$HERE"
"$PYTHON" -m pytest -q -p no:cacheprovider --timeout=60 --tb=short faststream_samples.py
