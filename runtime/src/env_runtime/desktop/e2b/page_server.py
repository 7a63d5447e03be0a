"""The program that serves the form's page to Chrome, inside the E2B sandbox.

    python3 page_server.py FOLDER PORT

It serves FOLDER/page.html on the loopback interface, and writes what the page reports
after every change into FOLDER/state.json.
"""

import http.server
import os
import pathlib
import sys


class Handler(http.server.BaseHTTPRequestHandler):
    folder: pathlib.Path

    def do_GET(self):
        self.answer((self.folder / "page.html").read_bytes())

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        (self.folder / "state.new").write_bytes(body)
        os.replace(self.folder / "state.new", self.folder / "state.json")
        self.answer(b"")

    def answer(self, body):
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    Handler.folder = pathlib.Path(sys.argv[1])
    address = ("127.0.0.1", int(sys.argv[2]))
    http.server.ThreadingHTTPServer(address, Handler).serve_forever()
