"""Holds a process at a point of its life that nothing else can hold it at."""
import contextlib
import ctypes
import os
import signal
import struct

SEIZE, INTERRUPT, CONT, SYSCALL, SYSCALL_INFO = 0x4206, 0x4207, 7, 24, 0x420e
TELL_SYSCALLS, TELL_EXIT = 0x01, 0x40  # options of SEIZE
EXITING = signal.SIGTRAP | 6 << 8
AT_SYSCALL = signal.SIGTRAP | 0x80
RETURNED = 2  # SYSCALL_INFO: where in the system call
WALL = 0x40000000

libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
libc.ptrace.restype = ctypes.c_long


class Traced:
    def __init__(self, pid):
        self.pid = pid
        self.ask(SEIZE, 0, TELL_SYSCALLS | TELL_EXIT)

    def ask(self, request, address=0, data=0):
        if libc.ptrace(request, self.pid, address, data) < 0:
            raise OSError(ctypes.get_errno(), "ptrace")

    def stopped(self):
        """Why it has stopped; 0 when it has ended instead."""
        status = os.waitpid(self.pid, WALL)[1]
        return status >> 8 if os.WIFSTOPPED(status) else 0

    def go_on(self, stop, how=CONT):
        is_signal = stop >> 8 == 0 and stop & 0x80 == 0 and stop != signal.SIGTRAP
        self.ask(how, 0, stop if is_signal else 0)

    def die_slowly(self):
        """Kills it and holds it before anything of it is closed."""
        os.kill(self.pid, signal.SIGKILL)
        assert self.stopped() == EXITING

    def next_syscall(self):
        stop = self.stopped()
        while stop != AT_SYSCALL:
            self.go_on(stop, SYSCALL)
            stop = self.stopped()

    def hold_at_syscall(self):
        """Before the one that it sleeps in, which is begun again."""
        self.ask(INTERRUPT)
        self.next_syscall()

    def die_when_it_has_read(self, least):
        """Lets it run until the kernel has read that much for it, and no instruction further."""
        while self.returned() < least:
            self.go_on(AT_SYSCALL, SYSCALL)
            self.next_syscall()
        self.die_slowly()

    def returned(self):
        info = (ctypes.c_ubyte * 96)()
        self.ask(SYSCALL_INFO, len(info), ctypes.addressof(info))
        return struct.unpack_from("<q", bytes(info), 24)[0] if info[0] == RETURNED else -1

    def end(self):
        with contextlib.suppress(ProcessLookupError):  # killed once more it goes on by itself
            self.go_on(EXITING)
        assert self.stopped() == 0
