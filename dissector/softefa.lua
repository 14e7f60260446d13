-- Wireshark dissector for SRD over UDP, the protocol of Soft-EFA (docs/PROTOCOL.md, version 1).
--
--   tshark -X lua_script:dissector/softefa.lua -r FILE
-- or copy it into the folder that Wireshark names in Help > About > Folders > Personal Lua Plugins.
--
-- Display filters begin with "srd.": srd.rtx, srd.psn == 7, srd.ack.drop.status == 10, srd.expert.
-- Rules cited as SRD-n.m are those of docs/PROTOCOL.md.

-- Wireshark has brought different libraries for what Lua 5.3 has operators for.
local bits = bit32
  or bit
  or load([[return {
    band = function(a, b) return a & b end,
    bxor = function(a, b) return a ~ b end,
    rshift = function(a, b) return a >> b end,
  }]])()
local band, bxor, rshift = bits.band, bits.bxor, bits.rshift

local srd = Proto("srd", "Soft-EFA SRD over UDP")

local VERSION = 1
local KIND = {
  SRD = 0,
  RESET = 1,
  UD = 2,
  REFUSED = 3,
  CHALLENGE = 4,
  FRAME = 5,
  SEALED = 8,
  NOTICE = 9,
}
local COMMON_LEN = 12
local CHECK_AT, CHECK_LEN = 8, 4
local ACK_LEN = 44
local DATA_LEN = 32
local COOKIE_LEN = 8
local RESET_LEN = 20
local REFUSED_LEN = 28
local CHALLENGE_LEN = 28
local UD_LEN = 24
local BLOCK_LEN = 24
local ENTRY_LEN = 8
-- Sealed datagrams and notices (SRD-11).
local ENVELOPE_LEN = 24
local TAG_LEN = 16
local NOTICE_HEAD_LEN = 8
local SOURCE_LEN = 48
local DROP_LEN = 8
local ECHO_LEN = 8
-- Most words of the bitmap, drop ranges and earlier echoes of an acknowledgement (SRD-2.7).
local SACK_WORDS_MAX = 16
local DROPS_MAX = 12
local ECHOES_MAX = 3
local PSN_WINDOW = 8192
local PATH_MAX = 255
-- First port that is a queue pair number.
local QPN_FIRST = 16384
-- A drop range that the sender may try again (SRD-6.2).
local AGAIN = 0x80
local TICK_NS = 16

local kinds = {
  [0] = "SRD",
  [1] = "RESET",
  [2] = "UD",
  [3] = "REFUSED",
  [4] = "CHALLENGE",
  [5] = "FRAME",
  [8] = "SEALED",
  [9] = "NOTICE",
}
local operations = {
  [0] = "SEND",
  [1] = "RDMA WRITE",
  [2] = "RDMA READ",
  [3] = "RDMA READ DATA",
  [4] = "RDMA READ FAIL",
  [5] = "RDMA PROBE",
  [16] = "RDMA WRITE LOCAL",
  [17] = "RDMA READ GRANT",
  [18] = "RDMA READ CONFIRM",
  [19] = "GONE",
}
local SEND, READ_DATA, READ_FAIL, WRITE_LOCAL, READ_GRANT = 0, 3, 4, 16, 17
local statuses = {
  [0] = "OK",
  [1] = "FLUSHED",
  [7] = "REMOTE_ERROR_BAD_ADDRESS",
  [8] = "REMOTE_ERROR_ABORT",
  [9] = "REMOTE_ERROR_BAD_DEST_QPN",
  [10] = "REMOTE_ERROR_RNR",
  [11] = "REMOTE_ERROR_BAD_LENGTH",
  [12] = "REMOTE_ERROR_BAD_STATUS",
  [13] = "LOCAL_ERROR_UNRESP_REMOTE",
  [14] = "REMOTE_ERROR_UNKNOWN_PEER",
  [15] = "LOCAL_ERROR_UNREACH_REMOTE",
  [18] = "REMOTE_ERROR_FEATURE_MISMATCH",
}

local f = {
  version = ProtoField.uint8("srd.version", "Version", base.DEC, nil, 0xf0),
  kind = ProtoField.uint8("srd.kind", "Kind", base.DEC, kinds, 0x0f),
  flags = ProtoField.uint8("srd.flags", "Flags", base.HEX),
  init = ProtoField.bool("srd.flags.init", "INIT: opens a connection", 8, nil, 0x01),
  rtx = ProtoField.bool("srd.flags.rtx", "RTX: a repetition", 8, nil, 0x02),
  ack_req = ProtoField.bool("srd.flags.ack_req", "ACK_REQ: answer at once", 8, nil, 0x04),
  has_ack = ProtoField.bool("srd.flags.has_ack", "HAS_ACK", 8, nil, 0x08),
  has_data = ProtoField.bool("srd.flags.has_data", "HAS_DATA", 8, nil, 0x10),
  final_try = ProtoField.bool("srd.flags.final_try", "FINAL_TRY: last permitted try", 8, nil, 0x20),
  probe = ProtoField.bool("srd.flags.probe", "PROBE: is anybody there?", 8, nil, 0x40),
  sealed = ProtoField.bool("srd.flags.sealed", "SEALED: check covers the payload", 8, nil, 0x80),
  path = ProtoField.uint16("srd.path", "Path", base.DEC),
  src_qpn = ProtoField.uint16("srd.src_qpn", "Source queue pair", base.DEC),
  dst_qpn = ProtoField.uint16("srd.dst_qpn", "Destination queue pair", base.DEC),
  check = ProtoField.uint32("srd.check", "Check (CRC32C)", base.HEX),
  check_status = ProtoField.uint8("srd.check.status", "Check status", base.DEC,
    { [0] = "Bad", [1] = "Good", [2] = "Unverified" }),

  conn = ProtoField.uint64("srd.conn", "Connection", base.HEX),
  psn = ProtoField.uint32("srd.psn", "Sequence number", base.DEC),
  tx_ts = ProtoField.uint32("srd.tx_ts", "Sender's clock (16 ns)", base.DEC),
  oldest = ProtoField.uint16("srd.oldest", "Ahead of the oldest unresolved", base.DEC),
  backlog = ProtoField.uint16("srd.backlog", "Backlog (log-coded)", base.HEX),
  backlog_bytes = ProtoField.uint64("srd.backlog_bytes", "Backlog in bytes", base.DEC),
  op = ProtoField.uint8("srd.op", "Operation", base.DEC, operations),
  op_flags = ProtoField.uint8("srd.op_flags", "Operation flags", base.HEX),
  has_imm = ProtoField.bool("srd.op_flags.imm", "Immediate data", 8, nil, 0x01),
  len = ProtoField.uint16("srd.len", "Payload bytes", base.DEC),
  qkey = ProtoField.uint32("srd.qkey", "Queue key", base.HEX),
  imm = ProtoField.uint32("srd.imm", "Immediate", base.HEX),
  cookie = ProtoField.uint64("srd.cookie", "Cookie", base.HEX),
  messages = ProtoField.uint8("srd.messages", "Messages", base.DEC),
  message_psn = ProtoField.uint32("srd.message.psn", "Number", base.DEC),

  ack_conn = ProtoField.uint64("srd.ack.conn", "Connection acknowledged", base.HEX),
  cum_psn = ProtoField.uint32("srd.ack.cum_psn", "All below are consumed", base.DEC),
  ref_psn = ProtoField.uint32("srd.ack.ref_psn", "Arrived last", base.DEC),
  echo_ts = ProtoField.uint32("srd.ack.echo_ts", "Echo of the sender's clock (16 ns)", base.DEC),
  rx_ts = ProtoField.uint32("srd.ack.rx_ts", "Receiver's clock (16 ns)", base.DEC),
  rcvd_bytes = ProtoField.uint64("srd.ack.rcvd_bytes", "Bytes received", base.DEC),
  ref_path = ProtoField.uint16("srd.ack.ref_path", "Path it arrived on", base.DEC),
  rx_delay = ProtoField.uint16("srd.ack.rx_delay", "Held back (16 ns)", base.DEC),
  rx_delay_ns = ProtoField.uint32("srd.ack.rx_delay_ns", "Held back in ns", base.DEC),
  hint = ProtoField.uint16("srd.ack.hint", "Fair share (log-coded bytes/us)", base.HEX),
  sack_off = ProtoField.uint16("srd.ack.sack_off", "Bitmap begins at", base.DEC),
  sack_words = ProtoField.uint8("srd.ack.sack_words", "Bitmap words", base.DEC),
  drops = ProtoField.uint8("srd.ack.drops", "Drop ranges", base.DEC),
  echoes = ProtoField.uint8("srd.ack.echoes", "Earlier packets", base.DEC),
  features = ProtoField.uint8("srd.ack.features", "What the receiver can do", base.HEX),
  takes_frames = ProtoField.bool("srd.ack.features.frames", "It takes frames", 8, nil, 0x01),
  sack = ProtoField.uint64("srd.ack.sack", "Bitmap", base.HEX),
  drop = ProtoField.bytes("srd.ack.drop", "Drop range"),
  drop_psn = ProtoField.uint32("srd.ack.drop.psn", "First number", base.DEC),
  drop_count = ProtoField.uint16("srd.ack.drop.count", "Numbers", base.DEC),
  drop_again = ProtoField.bool("srd.ack.drop.again", "May be tried again", 8, nil, AGAIN),
  drop_status = ProtoField.uint8("srd.ack.drop.status", "Status", base.DEC, statuses, 0x7f),
  echo = ProtoField.bytes("srd.ack.echo", "Earlier packet"),
  echo_path = ProtoField.uint16("srd.ack.echo.path", "Path it arrived on", base.DEC),
  echo_delay = ProtoField.uint16("srd.ack.echo.rx_delay", "Held back (16 ns)", base.DEC),
  echo_earlier_ts = ProtoField.uint32("srd.ack.echo.ts", "Echo of the sender's clock (16 ns)", base.DEC),

  reset_conn = ProtoField.uint64("srd.reset.conn", "Unknown connection", base.HEX),
  refused_conn = ProtoField.uint64("srd.refused.conn", "Connection that is not opened", base.HEX),
  refused_psn = ProtoField.uint32("srd.refused.psn", "First number", base.DEC),
  refused_count = ProtoField.uint16("srd.refused.count", "Numbers", base.DEC),
  refused_status = ProtoField.uint8("srd.refused.status", "Status", base.DEC, statuses),
  challenge_conn = ProtoField.uint64("srd.challenge.conn", "Connection to be opened", base.HEX),

  rdma_addr = ProtoField.uint64("srd.rdma.addr", "Remote address", base.HEX),
  rdma_key = ProtoField.uint32("srd.rdma.key", "Remote key", base.HEX),
  rdma_status = ProtoField.uint32("srd.rdma.status", "Status", base.DEC, statuses),
  rdma_total = ProtoField.uint32("srd.rdma.total", "Bytes of the operation", base.DEC),
  rdma_offset = ProtoField.uint32("srd.rdma.offset", "Offset", base.DEC),
  rdma_tag = ProtoField.uint32("srd.rdma.tag", "Tag", base.HEX),
  read_local = ProtoField.bool("srd.op_flags.local", "May be copied by the requester", 8, nil, 0x80),
  source_pid = ProtoField.uint32("srd.source.pid", "Process", base.DEC),
  source_len = ProtoField.uint32("srd.source.len", "Bytes", base.DEC),
  source_addr = ProtoField.uint64("srd.source.addr", "Address", base.HEX),
  source_lease_addr = ProtoField.uint64("srd.source.lease_addr", "Address of the lease", base.HEX),
  source_lease = ProtoField.uint64("srd.source.lease", "Lease", base.HEX),
  source_seal = ProtoField.bytes("srd.source.seal", "Seal"),
  payload = ProtoField.bytes("srd.payload", "Payload"),

  seal_len = ProtoField.uint16("srd.seal.len", "Bytes", base.DEC),
  seal_session = ProtoField.uint64("srd.seal.session", "Session", base.HEX),
  seal_counter = ProtoField.uint64("srd.seal.counter", "Counter", base.DEC),
  seal_bytes = ProtoField.bytes("srd.seal.bytes", "Encrypted"),
  seal_tag = ProtoField.bytes("srd.seal.tag", "Tag"),
  notice_quote = ProtoField.bytes("srd.notice.quote", "Cannot be opened"),
}
srd.fields = f

local e = {
  rtx = ProtoExpert.new("srd.expert.rtx", "Retransmission", expert.group.SEQUENCE,
    expert.severity.NOTE),
  probe = ProtoExpert.new("srd.expert.probe", "Nobody answered for a time-out",
    expert.group.SEQUENCE, expert.severity.WARN),
  again = ProtoExpert.new("srd.expert.not_ready", "Receiver not ready, to be tried again",
    expert.group.RESPONSE_CODE, expert.severity.NOTE),
  refused = ProtoExpert.new("srd.expert.refused", "Message refused", expert.group.RESPONSE_CODE,
    expert.severity.WARN),
  reset = ProtoExpert.new("srd.expert.reset", "The receiver does not know the connection",
    expert.group.SEQUENCE, expert.severity.WARN),
  challenge = ProtoExpert.new("srd.expert.challenge", "The sender is to prove its address",
    expert.group.SEQUENCE, expert.severity.NOTE),
  damaged = ProtoExpert.new("srd.expert.damaged", "The check does not fit: receivers drop this",
    expert.group.CHECKSUM, expert.severity.ERROR),
  notice = ProtoExpert.new("srd.expert.notice", "The receiver cannot open what it got",
    expert.group.SECURITY, expert.severity.WARN),
  malformed = ProtoExpert.new("srd.expert.malformed", "Fields contradict each other",
    expert.group.MALFORMED, expert.severity.ERROR),
}
srd.experts = e

local function status_name(status)
  return statuses[status] or ("status " .. status)
end

-- 16-bit floating number: exponent + 1 in the high byte, 8 bits after the leading one (SRD-2.6).
local function decode_log(code)
  local exponent, mantissa = math.floor(code / 256), code % 256
  if exponent == 0 then
    return UInt64(mantissa)
  end
  return UInt64(mantissa + 256):lshift(math.min(exponent - 1, 55))
end

local function has(flags, mask)
  return band(flags, mask) ~= 0
end

local function malformed(tree, why)
  tree:add_proto_expert_info(e.malformed, "Malformed: " .. why)
end

-- There is less than there should be: because of the capture, or of the sender.
local function too_short(tvb, tree, why)
  if tvb:len() == tvb:reported_len() then
    malformed(tree, why)
  end
end

local flag_fields = { f.init, f.rtx, f.ack_req, f.has_ack, f.has_data, f.final_try, f.probe,
  f.sealed }

local function common_header(tvb, at, tree)
  tree:add(f.version, tvb(at, 1))
  tree:add(f.kind, tvb(at, 1))
  local flags = tree:add(f.flags, tvb(at + 1, 1))
  for _, field in ipairs(flag_fields) do
    flags:add(field, tvb(at + 1, 1))
  end
  tree:add(f.path, tvb(at + 2, 2))
  tree:add(f.src_qpn, tvb(at + 4, 2))
  tree:add(f.dst_qpn, tvb(at + 6, 2))
end

-- CRC32C, bit by bit reversed (RFC 3720), by a table of its 256 single bytes.
local crc_table = {}
for byte = 0, 255 do
  local crc = byte
  for _ = 1, 8 do
    local is_odd = band(crc, 1) == 1
    crc = rshift(crc, 1)
    if is_odd then
      crc = bxor(crc, 0x82f63b78)
    end
  end
  crc_table[byte] = crc
end

local function crc32c(crc, bytes)
  for place = 1, #bytes do
    crc = bxor(rshift(crc, 8), crc_table[band(bxor(crc, bytes:byte(place)), 0xff)])
  end
  return crc
end

-- The check of the datagram at `at`, of which it covers `covered` bytes (SRD-2.10). 0 stands in
-- what was sealed (SRD-11.1), and in no more than one of 2^32 others.
local function check(tvb, at, covered, tree)
  local field = tvb(at + CHECK_AT, CHECK_LEN)
  local item = tree:add(f.check, field)
  local status = 2
  if field:uint() ~= 0 and at + covered <= tvb:len() then
    local behind = CHECK_AT + CHECK_LEN
    local crc = crc32c(0xffffffff, tvb:raw(at, CHECK_AT))
    crc = bxor(crc32c(crc, tvb:raw(at + behind, covered - behind)), 0xffffffff)
    status = crc % 2 ^ 32 == field:uint() and 1 or 0
  end
  item:add(f.check_status, field, status):set_generated()
  if status == 0 then
    item:add_proto_expert_info(e.damaged)
  end
end

local function drop_range(range, tree)
  local status = range(6, 1):uint()
  local again = has(status, AGAIN)
  status = band(status, 0x7f)
  local first, count = range(0, 4):uint(), range(4, 2):uint()
  local drop = tree:add(f.drop, range)
  drop:set_text(string.format("Drop range: %d numbers from %d, %s%s", count, first,
    status_name(status), again and ", to be tried again" or ""))
  drop:add(f.drop_psn, range(0, 4))
  drop:add(f.drop_count, range(4, 2))
  drop:add(f.drop_again, range(6, 1))
  drop:add(f.drop_status, range(6, 1))
  drop:add_proto_expert_info(again and e.again or e.refused, status_name(status))
end

-- The acknowledgement block at `at` (SRD-5); its length, nil when it is malformed.
local function acknowledgement(tvb, at, tree)
  if tvb:len() < at + ACK_LEN then
    return too_short(tvb, tree, "acknowledgement cut off")
  end
  local words, drops = tvb(at + 40, 1):uint(), tvb(at + 41, 1):uint()
  local echoes = tvb(at + 42, 1):uint()
  local len = ACK_LEN + words * 8 + drops * DROP_LEN + echoes * ECHO_LEN
  if words > SACK_WORDS_MAX or echoes > ECHOES_MAX or drops + echoes > DROPS_MAX then
    return malformed(tree, "acknowledgement longer than one may be (SRD-2.7)")
  end
  if tvb:len() < at + len then
    return too_short(tvb, tree, "acknowledgement cut off")
  end
  local cum = tvb(at + 8, 4):uint()
  local ack = tree:add(tvb(at, len), string.format("Acknowledgement, all below %d", cum))
  ack:add(f.ack_conn, tvb(at, 8))
  ack:add(f.cum_psn, tvb(at + 8, 4))
  ack:add(f.ref_psn, tvb(at + 12, 4))
  ack:add(f.echo_ts, tvb(at + 16, 4))
  ack:add(f.rx_ts, tvb(at + 20, 4))
  ack:add(f.rcvd_bytes, tvb(at + 24, 8))
  ack:add(f.ref_path, tvb(at + 32, 2))
  local delay = tvb(at + 34, 2)
  ack:add(f.rx_delay, delay)
  if delay:uint() ~= 0xffff then
    ack:add(f.rx_delay_ns, delay, delay:uint() * TICK_NS):set_generated()
  end
  ack:add(f.hint, tvb(at + 36, 2))
  ack:add(f.sack_off, tvb(at + 38, 2))
  ack:add(f.sack_words, tvb(at + 40, 1))
  ack:add(f.drops, tvb(at + 41, 1))
  ack:add(f.echoes, tvb(at + 42, 1))
  local features = ack:add(f.features, tvb(at + 43, 1))
  features:add(f.takes_frames, tvb(at + 43, 1))
  local place = at + ACK_LEN
  for _ = 1, words do
    ack:add(f.sack, tvb(place, 8))
    place = place + 8
  end
  for _ = 1, drops do
    drop_range(tvb(place, DROP_LEN), ack)
    place = place + DROP_LEN
  end
  for _ = 1, echoes do
    local echo = ack:add(f.echo, tvb(place, ECHO_LEN))
    echo:set_text("Earlier packet on path " .. tvb(place, 2):uint())
    echo:add(f.echo_path, tvb(place, 2))
    echo:add(f.echo_delay, tvb(place + 2, 2))
    echo:add(f.echo_earlier_ts, tvb(place + 4, 4))
    place = place + ECHO_LEN
  end
  return len, "cum=" .. cum
end

-- The block in front of the bytes of an RDMA message (SRD-10); its length and a summary.
local function rdma_block(tvb, at, len, op, tree)
  if len < BLOCK_LEN then
    malformed(tree, "shorter than an RDMA block")
    return 0, ""
  end
  if tvb:len() < at + BLOCK_LEN then
    -- Cut by the capture.
    return 0, ""
  end
  local rdma = tree:add(tvb(at, BLOCK_LEN), operations[op])
  rdma:add(f.rdma_addr, tvb(at, 8))
  local key = tvb(at + 8, 4)
  if op == READ_DATA or op == READ_FAIL then
    local status = rdma:add(f.rdma_status, key)
    if key:uint() ~= 0 then
      status:add_proto_expert_info(e.refused, status_name(key:uint()))
    end
  else
    rdma:add(f.rdma_key, key)
  end
  rdma:add(f.rdma_total, tvb(at + 12, 4))
  rdma:add(f.rdma_offset, tvb(at + 16, 4))
  rdma:add(f.rdma_tag, tvb(at + 20, 4))
  return BLOCK_LEN, string.format(" %d+%d/%d", tvb(at + 16, 4):uint(), len - BLOCK_LEN,
    tvb(at + 12, 4):uint())
end

-- Where bytes are in another process of this machine (SRD-10.7); its length.
local function source(tvb, at, len, tree)
  if len < SOURCE_LEN then
    malformed(tree, "shorter than a source")
    return 0
  end
  if tvb:len() < at + SOURCE_LEN then
    return 0
  end
  local range = tree:add(tvb(at, SOURCE_LEN), "Source")
  range:add(f.source_pid, tvb(at, 4))
  range:add(f.source_len, tvb(at + 4, 4))
  range:add(f.source_addr, tvb(at + 8, 8))
  range:add(f.source_lease_addr, tvb(at + 16, 8))
  range:add(f.source_lease, tvb(at + 24, 8))
  range:add(f.source_seal, tvb(at + 32, 16))
  return SOURCE_LEN
end

-- Payload of `len` bytes at `at`, of which the capture may hold fewer; a summary.
local function payload(tvb, at, len, op, tree)
  local used, summary = 0, ""
  if op ~= SEND and operations[op] then
    used, summary = rdma_block(tvb, at, len, op, tree)
  end
  if op == WRITE_LOCAL or op == READ_GRANT then
    used = used + source(tvb, at + used, len - used, tree)
  end
  local held = math.min(len, tvb:len() - at) - used
  if held > 0 then
    tree:add(f.payload, tvb(at + used, held))
  end
  return summary
end

-- Operation, flags and immediate, as SRD and UD carry them.
local function operation(tvb, op_at, imm_at, tree)
  tree:add(f.op, tvb(op_at, 1))
  local flags = tree:add(f.op_flags, tvb(op_at + 1, 1))
  flags:add(f.has_imm, tvb(op_at + 1, 1))
  flags:add(f.read_local, tvb(op_at + 1, 1))
  tree:add(f.imm, tvb(imm_at, 4))
  return tvb(op_at, 1):uint()
end

-- The messages of a frame, of which there are `count` from number `psn` on, in the `len` bytes at
-- `at` (SRD-14.1); whether they fill it.
local function messages(tvb, at, len, count, psn, tree)
  local last = math.min(at + len, tvb:len())
  for i = 0, count - 1 do
    if at + ENTRY_LEN > last then
      return false
    end
    local bytes = tvb(at, 2):uint()
    local held = math.min(bytes, last - at - ENTRY_LEN)
    local number = (psn + i) % 2 ^ 32
    local message =
      tree:add(tvb(at, ENTRY_LEN + held), string.format("Message, number %d", number))
    message:add(f.message_psn, tvb(at, 0), number):set_generated()
    message:add(f.len, tvb(at, 2))
    local op = operation(tvb, at + 2, at + 4, message)
    payload(tvb, at + ENTRY_LEN, bytes, op, message)
    at, len = at + ENTRY_LEN + bytes, len - ENTRY_LEN - bytes
  end
  return len == 0
end

-- The data block and payload at `at` (SRD-2.4); their length, that of all headers in it, and a
-- summary.
local function data(tvb, at, is_first, is_frame, tree)
  local header_len = DATA_LEN + (is_first and COOKIE_LEN or 0)
  if tvb:len() < at + header_len then
    return too_short(tvb, tree, "data block cut off")
  end
  local psn, len = tvb(at + 8, 4):uint(), tvb(at + 22, 2):uint()
  local block = tree:add(tvb(at, header_len), string.format("Data, number %d", psn))
  block:add(f.conn, tvb(at, 8))
  block:add(f.psn, tvb(at + 8, 4))
  block:add(f.tx_ts, tvb(at + 12, 4))
  local oldest = block:add(f.oldest, tvb(at + 16, 2))
  if tvb(at + 16, 2):uint() >= PSN_WINDOW then
    malformed(oldest, "further ahead than a sender may be (SRD-4.2)")
  end
  local backlog = tvb(at + 18, 2)
  block:add(f.backlog, backlog)
  block:add(f.backlog_bytes, backlog, decode_log(backlog:uint())):set_generated()
  local op = is_frame and tvb(at + 20, 1):uint() or operation(tvb, at + 20, at + 28, block)
  if is_frame then
    block:add(f.messages, tvb(at + 20, 1))
  end
  block:add(f.len, tvb(at + 22, 2))
  block:add(f.qkey, tvb(at + 24, 4))
  if is_first then
    block:add(f.cookie, tvb(at + DATA_LEN, COOKIE_LEN))
  end
  if is_frame then
    local is_whole = messages(tvb, at + header_len, len, op, psn, tree)
    if not is_whole and tvb:len() == tvb:reported_len() then
      malformed(block, "its messages do not fill it (SRD-14.2)")
    end
    local all = header_len + len
    return all, all, string.format("FRAME psn=%d messages=%d len=%d", psn, op, len)
  end
  local rdma = payload(tvb, at + header_len, len, op, tree)
  local name = operations[op] or ("operation " .. op)
  local headers = header_len + (op == SEND and 0 or BLOCK_LEN)
  return header_len + len, headers, string.format("%s psn=%d len=%d%s", name, psn, len, rdma)
end

-- Kinds 0 and 5: acknowledgement, data, or both; lengths of all and of the headers, and a summary.
local function srd_datagram(tvb, at, flags, is_frame, tree)
  local place, words = at + COMMON_LEN, {}
  if has(flags, 0x10) and has(flags, 0x02) then
    tree:add_proto_expert_info(e.rtx)
    table.insert(words, "[RTX]")
  end
  if has(flags, 0x40) then
    tree:add_proto_expert_info(e.probe)
    table.insert(words, "[PROBE]")
  end
  if not has(flags, 0x18) then
    return malformed(tree, "neither acknowledgement nor data (SRD-2.2)")
  end
  local ack_summary
  if has(flags, 0x08) then
    local len, summary = acknowledgement(tvb, place, tree)
    if not len then
      return nil
    end
    place, ack_summary = place + len, "ack " .. summary
  end
  local covered = place - at
  if has(flags, 0x10) then
    local len, headers, summary = data(tvb, place, has(flags, 0x01), is_frame, tree)
    if not len then
      return nil
    end
    place, covered = place + len, covered + headers
    table.insert(words, summary)
  end
  table.insert(words, ack_summary)
  return place - at, covered, table.concat(words, " ")
end

local function reset_datagram(tvb, at, tree)
  if tvb:len() < at + RESET_LEN then
    return too_short(tvb, tree, "RESET cut off")
  end
  tree:add(f.reset_conn, tvb(at + COMMON_LEN, 8))
  tree:add_proto_expert_info(e.reset)
  return RESET_LEN, RESET_LEN, "RESET"
end

-- Kind 3 (SRD-3.9).
local function refused_datagram(tvb, at, tree)
  if tvb:len() < at + REFUSED_LEN then
    return too_short(tvb, tree, "REFUSED cut off")
  end
  local block = at + COMMON_LEN
  local first, count = tvb(block + 8, 4):uint(), tvb(block + 12, 2):uint()
  local status = status_name(tvb(block + 14, 1):uint())
  tree:add(f.refused_conn, tvb(block, 8))
  tree:add(f.refused_psn, tvb(block + 8, 4))
  local numbers = tree:add(f.refused_count, tvb(block + 12, 2))
  if count == 0 or count > PSN_WINDOW then
    malformed(numbers, "as many numbers as no window has (SRD-4.2)")
  end
  tree:add(f.refused_status, tvb(block + 14, 1))
  tree:add_proto_expert_info(e.refused, status)
  local summary = string.format("REFUSED psn=%d count=%d %s", first, count, status)
  return REFUSED_LEN, REFUSED_LEN, summary
end

-- Kind 4 (SRD-3.10).
local function challenge_datagram(tvb, at, tree)
  if tvb:len() < at + CHALLENGE_LEN then
    return too_short(tvb, tree, "CHALLENGE cut off")
  end
  local block = at + COMMON_LEN
  tree:add(f.challenge_conn, tvb(block, 8))
  tree:add(f.cookie, tvb(block + 8, 8))
  tree:add_proto_expert_info(e.challenge)
  return CHALLENGE_LEN, CHALLENGE_LEN, "CHALLENGE"
end

-- Kind 2 (SRD-9).
local function ud_datagram(tvb, at, tree)
  if tvb:len() < at + UD_LEN then
    return too_short(tvb, tree, "unreliable datagram cut off")
  end
  local block = at + COMMON_LEN
  tree:add(f.qkey, tvb(block, 4))
  local op = operation(tvb, block + 8, block + 4, tree)
  local len = tvb(block + 10, 2):uint()
  tree:add(f.len, tvb(block + 10, 2))
  payload(tvb, at + UD_LEN, len, op, tree)
  local headers = UD_LEN + (op == SEND and 0 or BLOCK_LEN)
  return UD_LEN + len, headers, "UD " .. (operations[op] or op) .. " len=" .. len
end

-- What stands in front of sealed datagrams and notices, `len` bytes of it.
local function envelope(tvb, at, len, tree)
  tree:add(f.version, tvb(at, 1))
  tree:add(f.kind, tvb(at, 1))
  tree:add(f.flags, tvb(at + 1, 1))
  tree:add(f.seal_len, tvb(at + 2, 2))
  tree:add(f.src_qpn, tvb(at + 4, 2))
  tree:add(f.dst_qpn, tvb(at + 6, 2))
  if len == ENVELOPE_LEN then
    tree:add(f.seal_session, tvb(at + 8, 8))
    tree:add(f.seal_counter, tvb(at + 16, 8))
  end
end

-- Kind 8 (SRD-11.2); its length and a summary. `softefa pcap --key-file` shows what is inside.
local function sealed_datagram(tvb, at, tree)
  if tvb:len() < at + ENVELOPE_LEN then
    return too_short(tvb, tree, "envelope cut off")
  end
  envelope(tvb, at, ENVELOPE_LEN, tree)
  local len = tvb(at + 2, 2):uint()
  if len < ENVELOPE_LEN + COMMON_LEN + TAG_LEN then
    return malformed(tree, "shorter than a sealed datagram (SRD-11.2)")
  end
  local held = math.min(len - TAG_LEN, tvb:len() - at) - ENVELOPE_LEN
  if held > 0 then
    tree:add(f.seal_bytes, tvb(at + ENVELOPE_LEN, held))
  end
  if tvb:len() >= at + len then
    tree:add(f.seal_tag, tvb(at + len - TAG_LEN, TAG_LEN))
  end
  local counter = tvb(at + 16, 8):uint64()
  return len, string.format("SEALED counter=%s len=%d", counter, len)
end

-- Kind 9 (SRD-11.9).
local function notice_datagram(tvb, at, tree)
  local len = NOTICE_HEAD_LEN + ENVELOPE_LEN
  if tvb:len() < at + len then
    return too_short(tvb, tree, "notice cut off")
  end
  envelope(tvb, at, NOTICE_HEAD_LEN, tree)
  tree:add_proto_expert_info(e.notice)
  local place = at + NOTICE_HEAD_LEN
  local quote = tree:add(f.notice_quote, tvb(place, ENVELOPE_LEN))
  local kind = band(tvb(place, 1):uint(), 0x0f)
  local what = kinds[kind] or ("kind " .. kind)
  if kind == KIND.SEALED then
    envelope(tvb, place, ENVELOPE_LEN, quote)
    what = string.format("%s counter=%s", what, tvb(place + 16, 8):uint64())
  end
  return len, "NOTICE cannot open " .. what
end

-- Length and summary of a datagram, in the tree and in the list of packets.
local function conclude(tvb, at, pinfo, tree, len, summary)
  if at + len > tvb:reported_len() then
    return malformed(tree, "longer than its datagram (SRD-2.1)")
  end
  local src, dst = tvb(at + 4, 2):uint(), tvb(at + 6, 2):uint()
  tree:set_len(math.min(len, tvb:len() - at))
  tree:append_text(string.format(", %d > %d, %s", src, dst, summary))
  if at > 0 then
    pinfo.cols.info:append("; " .. summary)
  else
    pinfo.cols.info = string.format("%d > %d %s", src, dst, summary)
  end
  return len
end

-- The datagram at `at`; its length, nil when it cannot be told.
local function datagram(tvb, at, pinfo, root)
  local tree = root:add(srd, tvb(at))
  if tvb:len() < at + COMMON_LEN then
    return too_short(tvb, tree, "shorter than a header")
  end
  local seal = { [0x18] = sealed_datagram, [0x19] = notice_datagram }
  local dissect_seal = seal[tvb(at, 1):uint()]
  if dissect_seal then
    local len, summary = dissect_seal(tvb, at, tree)
    return len and conclude(tvb, at, pinfo, tree, len, summary)
  end
  common_header(tvb, at, tree)
  if math.floor(tvb(at, 1):uint() / 16) ~= VERSION then
    return malformed(tree, "another version (SRD-2.1)")
  end
  local kind, flags = band(tvb(at, 1):uint(), 0x0f), tvb(at + 1, 1):uint()
  local len, covered, summary
  if kind == KIND.SRD or kind == KIND.FRAME then
    len, covered, summary = srd_datagram(tvb, at, flags, kind == KIND.FRAME, tree)
  elseif kind == KIND.RESET then
    len, covered, summary = reset_datagram(tvb, at, tree)
  elseif kind == KIND.UD then
    len, covered, summary = ud_datagram(tvb, at, tree)
  elseif kind == KIND.REFUSED then
    len, covered, summary = refused_datagram(tvb, at, tree)
  elseif kind == KIND.CHALLENGE then
    len, covered, summary = challenge_datagram(tvb, at, tree)
  else
    return malformed(tree, "unknown kind (SRD-2.1)")
  end
  if not len then
    return nil
  end
  if at + len <= tvb:reported_len() then
    check(tvb, at, has(flags, 0x80) and len or covered, tree)
  end
  local path = at == 0 and string.format("path %d ", tvb(at + 2, 2):uint()) or ""
  return conclude(tvb, at, pinfo, tree, len, path .. summary)
end

local function dissect(tvb, pinfo, root)
  pinfo.cols.protocol = "SRD"
  -- What was captured below the kernel may be a train that it had not cut yet (SRD-2.9).
  local at = 0
  while at < tvb:len() do
    local len = datagram(tvb, at, pinfo, root)
    if not len then
      break
    end
    at = at + len
  end
  return tvb:len()
end

srd.dissector = dissect

-- A queue pair number is a UDP port, so every datagram names the port it goes to.
local function is_srd(tvb, pinfo)
  if tvb:len() < COMMON_LEN then
    return false
  end
  local version, kind = math.floor(tvb(0, 1):uint() / 16), tvb(0, 1):uint() % 16
  local is_seal = kind == KIND.SEALED or kind == KIND.NOTICE
  local third = tvb(2, 2):uint()
  -- A path, or a length.
  local fits = is_seal and third <= tvb:reported_len() or not is_seal and third <= PATH_MAX
  return version == VERSION
    and kinds[kind] ~= nil
    and fits
    and pinfo.dst_port >= QPN_FIRST
    and tvb(6, 2):uint() == pinfo.dst_port
end

srd:register_heuristic("udp", function(tvb, pinfo, root)
  if not is_srd(tvb, pinfo) then
    return false
  end
  dissect(tvb, pinfo, root)
  return true
end)

DissectorTable.get("udp.port"):add_for_decode_as(srd)
