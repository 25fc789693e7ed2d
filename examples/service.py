"""A web service that keeps the body of every request for its statistics, and a client that sends it requests.

It runs until it is ended. The bodies are never thrown away: that is the leak.
"""

import http.client
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SEEN: list[bytes] = []


class Statistics(BaseHTTPRequestHandler):
    """Answers with the number of different words in a text."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        SEEN.append(body)
        answer = json.dumps({"words": len(set(body.split()))}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        """No line for each request."""


def send_requests(port: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    for number in range(1_000_000):
        text = " ".join(str(number * word) for word in range(20_000))
        connection.request("POST", "/words", text.encode())
        connection.getresponse().read()
        time.sleep(0.02)


def main() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Statistics)
    threading.Thread(target=send_requests, args=(server.server_port,), daemon=True).start()
    server.serve_forever()


if __name__ == "__main__":
    main()
