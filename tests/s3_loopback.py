"""An S3 service on the loopback interface."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def s3_service() -> Iterator[dict[str, str]]:
    """The variables of the environment that lead clients to a running service."""
    from moto.server import ThreadedMotoServer
    from s3fs import S3FileSystem

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    url = f"http://{host}:{port}"
    S3FileSystem.clear_instance_cache()  # one of an earlier service is of another port
    keys = {
        "ACCESS_KEY_ID": "AKIAEXAMPLE",
        "SECRET_ACCESS_KEY": "sEcReT/kEy",
        "DEFAULT_REGION": "us-east-1",
    }
    try:
        yield {f"AWS_{name}": value for name, value in {**keys, "ENDPOINT_URL": url}.items()}
    finally:
        server.stop()
