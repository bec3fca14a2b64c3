"""An S3 service on the loopback interface."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.request import Request, urlopen


@contextmanager
def s3_service() -> Iterator[str]:
    """The address of a running service without buckets."""
    from moto.server import ThreadedMotoServer
    from s3fs import S3FileSystem

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    url = f"http://{host}:{port}"
    S3FileSystem.clear_instance_cache()  # one of an earlier service is of another port
    # The buckets of all services of a process are the same.
    urlopen(Request(f"{url}/moto-api/reset", method="POST")).close()
    try:
        yield url
    finally:
        server.stop()
