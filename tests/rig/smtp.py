"""A real mail server (aiosmtpd) that keeps every message in a file.

smtp.py DIR HOST [PORT TLS_PORT]    ports are chosen unless given; DIR/ports appears when it serves

PORT offers STARTTLS and takes logins before and after it; TLS_PORT is encrypted from the start.
A login is `tester` with `secret`; where one is tried with another password, it is refused.
DIR/mail/000001.eml is the message as it came, 000001.json: tls, auth, from, to. The JSON appears
last, and whole. It ends when its standard input ends.

Recipients that fail: reject@ 550, later@ 451, slow@ answers the message after a second, drop@ hangs up,
hang@ is never answered. Senders that fail: refused@ 553.
"""

import asyncio
import json
import os
import pathlib
import ssl
import sys

from aiosmtpd.smtp import SMTP, AuthResult

base, host = pathlib.Path(sys.argv[1]), sys.argv[2]
ports = [int(port) for port in sys.argv[3:]] or [0, 0]
mail = base / "mail"
mail.mkdir(exist_ok=True)
count = max((int(file.stem) for file in mail.glob("*.json")), default=0)


def write(path, data):
    part = path.with_name(path.name + ".part")
    part.write_bytes(data)
    os.rename(part, path)


class Catch:
    def __init__(self, encrypted):
        self.encrypted = encrypted

    async def handle_MAIL(self, server, session, envelope, address, options):
        if address.startswith("refused@"):
            return "553 5.7.1 sender address rejected"
        envelope.mail_from = address
        return "250 OK"

    async def handle_RCPT(self, server, session, envelope, address, options):
        kind = address.split("@")[0]
        if kind == "reject":
            return "550 5.1.1 no such user"
        if kind == "later":
            return "451 4.3.0 try again later"
        if kind == "drop":
            server.transport.abort()
        if kind == "hang":
            await asyncio.Event().wait()
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server, session, envelope):
        global count
        if any(to.startswith("slow@") for to in envelope.rcpt_tos):
            await asyncio.sleep(1)
        count += 1
        number = "%06d" % count
        write(mail / (number + ".eml"), envelope.original_content)
        write(mail / (number + ".json"), json.dumps({
            "tls": session.ssl is not None or self.encrypted,
            "auth": session.auth_data.login.decode() if session.authenticated else None,
            "from": envelope.mail_from, "to": envelope.rcpt_tos}).encode())
        return "250 OK caught as " + number


def authenticate(server, session, envelope, mechanism, data):
    good = data.login == b"tester" and data.password == b"secret"
    return AuthResult(success=good, handled=False, auth_data=data)


async def main():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(base / "server.pem", base / "server.key")
    loop = asyncio.get_running_loop()

    async def serve(port, encrypted, tls, **options):
        def make():
            return SMTP(Catch(encrypted), hostname="localhost", authenticator=authenticate,
                        auth_require_tls=False, **options)
        server = await loop.create_server(make, host, port, ssl=tls)
        return server.sockets[0].getsockname()[1]

    found = [await serve(ports[0], False, None, tls_context=context),
             await serve(ports[1], True, context)]
    write(base / "ports", json.dumps(found).encode())
    ended = loop.create_future()
    loop.add_reader(0, lambda: os.read(0, 4096) or (ended.done() or ended.set_result(None)))
    await ended


asyncio.run(main())
