"""A web server over TLS that keeps the body of every POST in a file.

hook.py DIR HOST    DIR/hook-port appears when it serves; its certificate is DIR/server.pem

DIR/hook/1.json is the first body. It ends when its standard input ends.
"""

import http.server
import os
import pathlib
import ssl
import sys
import threading

base, host = pathlib.Path(sys.argv[1]), sys.argv[2]
kept = base / "hook"
kept.mkdir(exist_ok=True)


def write(path, data):
    part = path.with_name(path.name + ".part")
    part.write_bytes(data)
    os.rename(part, path)


class Hook(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        write(kept / ("%d.json" % (len(os.listdir(kept)) + 1)), body)
        self.send_response(204)
        self.end_headers()


context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(base / "server.pem", base / "server.key")
server = http.server.HTTPServer((host, 0), Hook)
server.socket = context.wrap_socket(server.socket, server_side=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
write(base / "hook-port", str(server.server_address[1]).encode())
sys.stdin.read()
