"""Sizes, numbers and deaths, with real processes; needs what ``live_executor.py`` needs."""

import collections
import mmap
import os
import pickle
import random
import signal
import socket
import time
import unittest

import calls
import neronet
from live_executor import DEADLINE, pool, process_of, until

#: Programs of ours whose deaths no call may notice, with the word that tells them from commands.
KILLED = {"neroman": b"daemon", "neromum": b"serve", "nerokid": b"watch"}
KILLS = int(os.environ.get("NERO_KILLS", "15"))
PRINTED = int(os.environ.get("NERO_PRINTED", str(20 << 20)))


def living(program):
    """The processes of this home that run one of these programs."""
    home, found = os.environ["NERONET_HOME"].encode(), []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/{}/cmdline".format(name), "rb") as file:
                words = file.read().split(b"\0")
            with open("/proc/{}/environ".format(name), "rb") as file:
                is_ours = home in b" ".join(words) + file.read()
        except OSError:
            continue
        if os.path.basename(words[0]).decode() == program and is_ours and KILLED[program] in words:
            found.append(int(name))
    return found


class Sizes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.pool = pool(2)

    @classmethod
    def tearDownClass(cls):
        cls.pool.shutdown()

    def test_an_argument_of_gigabytes(self):
        # More than 31 bits tell; pages that nobody wrote cost nothing here.
        with mmap.mmap(-1, (2 << 30) + 1) as data:
            data[-1] = 7
            sent = self.pool.submit(calls.length_of, pickle.PickleBuffer(data))
            self.assertEqual(sent.result(DEADLINE), len(data))
            del sent

    def test_a_million_tiny_calls(self):
        results = self.pool.map(abs, range(-1_000_000, 0), chunksize=250, buffersize=100_000)
        self.assertEqual(sum(results), 500_000_500_000)

    def test_a_worker_that_prints_until_its_log_is_large(self):
        self.assertEqual(self.pool.submit(calls.noisy, PRINTED // 101).result(DEADLINE),
                         PRINTED // 101)
        self.assertEqual(self.pool.submit(abs, -1).result(DEADLINE), 1)


class Deaths(unittest.TestCase):
    def test_calls_go_on_though_daemons_are_killed_in_every_phase_of_them(self):
        chance = random.Random(7)
        path = os.path.join(os.environ["NERONET_HOME"], "deaths")
        futures = []

        def call():
            futures.append(one.submit(calls.slow_note, path, len(futures), 0.003))
            return futures[-1]

        def there():
            # Calls go on until the next one is there.
            call().result(DEADLINE)
            return living(program)

        with pool(2) as one:
            one.wait_for_workers(2, DEADLINE)
            for kill in range(KILLS):
                program = list(KILLED)[kill % len(KILLED)]
                alive = until(program, there)
                for _ in range(chance.randrange(5)):
                    call()
                # No wait: the point of a call at which it dies is to be any.
                time.sleep(chance.uniform(0, 0.006))
                for pid in alive:
                    try:
                        os.kill(pid, signal.SIGKILL)
                    except ProcessLookupError:
                        pass
            self.assertEqual([future.result(DEADLINE) for future in futures],
                             list(range(len(futures))))
        with open(path) as file:
            times = collections.Counter(int(line) for line in file)
        self.assertEqual(times, collections.Counter(range(len(futures))))


def fill(path):
    """Takes the room that its disk has; false when others changed that meanwhile."""
    with open(path, "wb") as file:
        about = os.statvfs(path)
        free = about.f_bavail * about.f_frsize
        try:
            os.posix_fallocate(file.fileno(), 0, free)
        except OSError:
            return False
    return True


@unittest.skipUnless(os.environ.get("SMALL_DISK"), "needs a home on a small disk")
class Full(unittest.TestCase):
    def test_calls_go_on_while_the_disk_is_full_and_workers_come_when_it_is_not(self):
        filler = os.path.join(os.environ["NERONET_HOME"], "filler")
        with pool(2) as one:
            one.wait_for_workers(2, DEADLINE)
            until("full disk", lambda: fill(filler))
            self.assertEqual(list(one.map(abs, range(-500, 0))), list(range(500, 0, -1)))
            # Both workers are gone, and no run can begin.
            for link in one._links:
                os.kill(process_of(link), signal.SIGKILL)
            future = one.submit(abs, -1)
            until("end of the workers", lambda: not one.workers)
            os.remove(filler)
            self.assertEqual(future.result(DEADLINE), 1)


class Others(unittest.TestCase):
    def test_two_neromans_have_pools_of_their_own(self):
        other = os.path.join(os.environ["NERONET_HOME"], "other")
        with pool(1) as one, pool(1, home=other) as two:
            first, second = one.submit(calls.where), two.submit(calls.where)
            self.assertNotEqual(first.result(DEADLINE)[1], second.result(DEADLINE)[1])
            self.assertEqual([run.partition(".")[0] for run in two.runs], ["1"])
        neronet.connect(other).call("daemon", "stop")

    @unittest.skipUnless(os.geteuid() == 0, "only root can be another user")
    def test_another_user_gets_no_word_from_any_socket(self):
        with pool(1) as one:
            one.wait_for_workers(1, DEADLINE)
            (link,) = one._links
            for place in (link.place, one._door.getsockname()):
                self.assertEqual(said_to_nobody(place), "PermissionError")
                # Even where somebody opened the folder.
                folder = os.path.dirname(place)
                os.chmod(folder, 0o755)
                os.chmod(place, 0o777)
                self.assertEqual(said_to_nobody(place), "b''")
            self.assertEqual(one.submit(abs, -1).result(DEADLINE), 1)


def said_to_nobody(place):
    """What a process of another user hears at a socket that it greets."""
    heard, told = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            link.settimeout(DEADLINE)
            link.connect(place)
            try:
                link.sendall(b"{}" * 100)
            except BrokenPipeError:
                pass
            answer = repr(link.recv(100))
        except ConnectionResetError:
            answer = "b''"
        except BaseException as error:
            answer = type(error).__name__
        os.write(told, answer.encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(told)
    with open(heard, "rb") as file:
        return file.read().decode()


if __name__ == "__main__":
    unittest.main()
