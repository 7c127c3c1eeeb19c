"""Whether the node of a kit is healthy, by its status port: python healthcheck.py KIT. Exit code 0 if it is."""

import sys
import tomllib
from http.client import HTTPConnection, HTTPException
from pathlib import Path


def main(kit: Path) -> None:
    name = tomllib.loads((kit / "node.toml").read_text())["name"]
    nodes = tomllib.loads((kit / "network.toml").read_text())["nodes"]
    port = next(node.get("status_port") for node in nodes if node["name"] == name)
    if port is None:
        sys.exit(f"{name} has no status port. Make the network with --node {name}=ENDPOINT,status=PORT.")
    connection = HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/healthz")
        answer = connection.getresponse()
    except (OSError, HTTPException) as error:
        sys.exit(f"{name} does not answer at port {port}: {error}")
    if answer.status != 200:
        sys.exit(f"{name} answers {answer.status}: {answer.read().decode().strip()}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
