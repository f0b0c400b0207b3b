"""What is published, and what it is made of: `make lock` and `make release`.

- `lock`: requirements with hashes for the image, and docs/dependencies.md with the licence of each
- `packages`: wheel, source archive, chart and bill of materials in `dist/`, each looked at before it is kept
"""
