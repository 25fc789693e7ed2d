"""A threaded HTTP server on loopback. Prints its port, serves until it is asked for /stop, prints how often it served."""

import hashlib
import http.server
import json
import threading

SERVED = []
STOP = threading.Event()


def answer(path):
    digest = path.encode()
    for _ in range(3_000):
        digest = hashlib.sha256(digest).digest()  # LINE: digest
    return digest.hex().encode()


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = answer(self.path)
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        SERVED.append(self.path)
        if self.path == "/stop":
            STOP.set()

    def log_message(self, *arguments):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
STOP.wait()
server.shutdown()
print(json.dumps({"served": len(SERVED)}))
