"""Somebody to talk to in a network namespace. Its arguments: its name, a file for what it
hears, and the address of the interface to hear multicast on. TCP and UDP on every address,
and a name server that answers every question with the address ANSWER."""
import select
import socket
import struct
import sys

NAME, LOG = sys.argv[1], open(sys.argv[2], "w", buffering=1)
PORT, GROUP, ANSWER = 8080, "239.1.2.3", "203.0.113.10"


def udp(port):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.bind(("0.0.0.0", port))
    return s


def name_answer(question):
    end = question.index(b"\0", 12) + 5
    kind = struct.unpack("!H", question[end - 4:end - 2])[0]
    head = question[:2] + b"\x81\x80\0\1" + (b"\0\1" if kind == 1 else b"\0\0") + b"\0\0\0\0"
    record = b"\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4" + socket.inet_aton(ANSWER) if kind == 1 else b""
    return head + question[12:end] + record


tcp, plain, names = socket.create_server(("0.0.0.0", PORT)), udp(PORT), udp(53)
plain.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP,
                 socket.inet_aton(GROUP) + socket.inet_aton(sys.argv[3]))
print("ready", file=LOG)
while True:
    for s in select.select([tcp, plain, names], [], [])[0]:
        if s is tcp:
            conn, peer = tcp.accept()
            print("tcp", conn.getsockname()[0], file=LOG)
            conn.sendall(NAME.encode() + b"\n")
            conn.close()
            continue
        data, peer = s.recvfrom(2048)
        if s is names:
            s.sendto(name_answer(data), peer)
            continue
        print("udp", data.decode(), file=LOG)
        s.sendto(NAME.encode() + b"\n", peer)
