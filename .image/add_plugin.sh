#!/bin/sh
# Adds the plugin to an engine's image: `add_plugin.sh [PACKAGE ...]`. What the image has stays as it is: its torch and its
# transformers are the engine's. What it lacks, and the packages that are named, come from the lock. A version in the image
# that the plugin cannot work with ends the build.
set -eu
python3 .image/lacking.py .image/requirements.txt "$@" > /tmp/lacking.txt
python3 -m pip install --no-deps --require-hashes -r /tmp/lacking.txt
python3 -m pip install --no-deps /wheels/*.whl
python3 -m pip check > /tmp/check.txt || true
if grep '^callgate ' /tmp/check.txt; then exit 1; fi
rm /tmp/lacking.txt /tmp/check.txt
