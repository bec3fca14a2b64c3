"""A name server on the loopback interface with the records of a test."""

import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import dns.message
import dns.rrset


@contextmanager
def served_names(records: Mapping[tuple[str, str], list[str]]) -> Iterator[int]:
    """The port of a server that answers from records by name and type; all other names are empty."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))

        def serve() -> None:
            while True:
                data, place = server.recvfrom(4096)
                if not data:
                    return
                query = dns.message.from_wire(data)
                answer = dns.message.make_response(query)
                (question,) = query.question
                kind = question.rdtype.name
                name = question.name.to_text(omit_final_dot=True)
                if texts := records.get((name, kind)):
                    answer.answer.append(
                        dns.rrset.from_text_list(f"{name}.", 60, "IN", kind, texts)
                    )
                server.sendto(answer.to_wire(), place)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            server.sendto(b"", server.getsockname())
            thread.join()
