"""What is not ours: scapy's idea of RoCE v2, for the tests of `softefa gateway`.

check FILE            reads a capture; says how many packets have a right ICRC
nic LOCAL PEER IFACE  plays a NIC towards `ibv_rc_pingpong -n 1 -s 64`, which serves at PEER

Both print a line of JSON.
"""

import json
import socket
import sys
import zlib

from scapy.config import conf
from scapy.contrib.roce import AETH, BTH, opcode
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.packet import Raw
from scapy.sendrecv import send
from scapy.utils import rdpcap

PORT = 4791
PINGPONG_PORT = 18515
SEND_ONLY = opcode("RC", "SEND_ONLY")[0]
ACKNOWLEDGE = opcode("RC", "ACKNOWLEDGE")[0]
# Low, as rxe and NICs number them.
OWN_QPN = 0x11
OWN_PSN = 0x000100


def icrc_over_ipv6(packet):
    """The ICRC, which scapy computes over IPv4 alone (IBTA, annex A17)."""
    raw = bytearray(bytes(packet))
    # Traffic class and flow label, hop limit, UDP checksum, congestion marks.
    raw[0] |= 0x0F
    raw[1:4] = b"\xff" * 3
    raw[7] = 0xFF
    raw[46:48] = b"\xff" * 2
    raw[52] = 0xFF
    return zlib.crc32(b"\xff" * 8 + bytes(raw[:-4])).to_bytes(4, "little")


def is_intact(packet):
    """The ICRC is the right one for the headers as they are."""
    if IPv6 in packet:
        return bytes(packet[IPv6])[-4:] == icrc_over_ipv6(packet[IPv6])
    again = packet[IP].copy()
    came = bytes(again)[-4:]
    again[BTH].icrc = None
    return bytes(again)[-4:] == came


def is_roce(packet):
    return UDP in packet and packet[UDP].dport == PORT and BTH in packet


def check(file):
    packets = [packet for packet in rdpcap(file) if is_roce(packet)]
    return {
        "packets": len(packets),
        "intact": sum(is_intact(packet) for packet in packets),
        "ids": sorted({packet[IP].id for packet in packets if IP in packet}),
        "opcodes": sorted({packet[BTH].opcode for packet in packets}),
    }


def exchange(local, peer):
    """What ibv_rc_pingpong's client says and hears; the connection and the peer's numbers."""
    connection = socket.create_connection((peer, PINGPONG_PORT), timeout=20)
    gid = bytes(10) + b"\xff\xff" + socket.inet_aton(local)
    connection.sendall(b"0000:%06x:%06x:%s\0" % (OWN_QPN, OWN_PSN, gid.hex().encode()))
    said = b""
    while len(said) < 52:
        said += connection.recv(52 - len(said))
    _, qpn, psn, _ = said.rstrip(b"\0").split(b":")
    connection.sendall(b"done\0")
    return connection, int(qpn, 16), int(psn, 16)


class Nic:
    def __init__(self, local, peer, iface):
        conf.verb = 0
        conf.iface = iface
        self.local, self.peer = local, peer
        # So that the kernel does not say that nobody is there.
        self.port = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.port.bind((local, PORT))
        self.wire = conf.L2listen(iface=iface)
        self.wrong = 0

    def packet(self, bth, payload, dport=PORT):
        # Identifications count up, as those of rxe do.
        ip = IP(src=self.local, dst=self.peer, id=0x4242, flags="DF", ttl=60)
        return ip / UDP(sport=0xC123, dport=dport, chksum=0) / bth / payload

    def receive(self):
        """The next packet for us, intact."""
        while True:
            packet = self.wire.recv()
            if packet is None or not is_roce(packet) or IP not in packet or packet[IP].dst != self.local:
                continue
            if is_intact(packet):
                return packet
            self.wrong += 1

    def send_only(self, qpn, payload, **more):
        bth = BTH(opcode=SEND_ONLY, migreq=1, dqpn=qpn, ackreq=1, psn=OWN_PSN)
        return self.packet(bth, Raw(payload), **more)

    def hostile(self, qpn):
        """What must not get in: damaged, not through the gateway, to nobody, cut, of another version."""
        bent = bytearray(bytes(self.send_only(qpn, b"\xee" * 64)))
        bent[-1] ^= 1
        send(IP(bytes(bent)))
        bent = bytearray(bytes(self.send_only(qpn, b"\xee" * 64)))
        bent[-20] ^= 1
        send(IP(bytes(bent)))
        past = self.send_only(qpn, b"\xee" * 64, dport=qpn >> 8)
        send(past)
        # With an envelope, which lacks the key.
        envelope = bytes(18) + (0xC123).to_bytes(2, "big") + socket.inet_aton(self.local)
        packet = bytes(past[BTH])
        past[UDP].payload = Raw(envelope + packet)
        send(past)
        send(self.send_only(qpn ^ 0x100, b"\xee" * 64))
        ip = IP(src=self.local, dst=self.peer, id=1, flags="DF")
        for payload in (b"", b"\x04\x40\xff\xff", b"\xff" * 80):
            send(ip / UDP(sport=0xC123, dport=PORT) / Raw(payload))

    def run(self):
        connection, qpn, psn = exchange(self.local, self.peer)
        self.hostile(qpn)
        send(self.send_only(qpn, bytes(64)))
        acks, sends = [], []
        while not (acks and sends):
            packet = self.receive()
            bth = packet[BTH]
            assert bth.dqpn == OWN_QPN, hex(bth.dqpn)
            if bth.opcode == ACKNOWLEDGE:
                acks.append((bth.psn, packet[AETH].syndrome, packet[AETH].msn))
            else:
                sends.append((bth.opcode, bth.psn, len(bytes(bth.payload))))
                back = BTH(opcode=ACKNOWLEDGE, migreq=1, dqpn=qpn, psn=bth.psn)
                send(self.packet(back, AETH(syndrome=0x1F, msn=1)))
        connection.settimeout(20)
        # Until the program has ended.
        while connection.recv(100):
            pass
        return {
            "wrong_icrc": self.wrong,
            "ack_psn": acks[0][0] - OWN_PSN,
            "ack_kind": acks[0][1] >> 5,
            "msn": acks[0][2],
            "send": [sends[0][0], sends[0][1] - psn, sends[0][2]],
        }


def main():
    what, *rest = sys.argv[1:]
    print(json.dumps(check(*rest) if what == "check" else Nic(*rest).run()))


main()
