#include "rendezvous/service/journal_format.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <utility>

#include <fmt/format.h>
#include <boost/crc.hpp>

#include "rendezvous/service/journal_fields.hpp"

namespace ddprun::rdzv {

namespace {

constexpr std::string_view kMagic = "ddprun journal ";
constexpr std::string_view kVersion = "1 ";
constexpr std::size_t kFrameHeadBytes = 8;
constexpr std::size_t kHeadBytesMax = 4096;
constexpr std::size_t kCrcDigits = 8;

std::uint32_t crc_of(std::string_view first, std::string_view second = {}) {
  boost::crc_32_type crc;
  crc.process_bytes(first.data(), first.size());
  crc.process_bytes(second.data(), second.size());
  return crc.checksum();
}

void append_u32(std::string& out, std::uint32_t number) {
  for (const int shift : {24, 16, 8, 0}) out += static_cast<char>(number >> shift);
}

std::uint32_t u32_at(std::string_view bytes, std::size_t at) {
  std::uint32_t number = 0;
  for (std::size_t i = 0; i < 4; ++i)
    number = number << 8 | static_cast<std::uint8_t>(bytes[at + i]);
  return number;
}

// ---- a record's body ----

void write_event(std::string& out, const JobEvent& event) {
  if (const auto* said = std::get_if<Said>(&event)) {
    out += "\"agent\":";
    proto::append_json_text(out, said->agent, proto::kNameBytesMax);
    out += ',';
    std::visit([&](const auto& message) { proto::write_message(out, message); }, said->message);
    return;
  }
  std::visit(
      [&]<class Event>(const Event& one) {
        if constexpr (!std::same_as<Event, Said>) proto::write_message(out, one);
      },
      event);
}

std::optional<JobRecord> read_body(std::string_view body) {
  const auto envelope = proto::open_envelope(body);
  if (!envelope) return std::nullopt;
  JobRecord record;
  const auto at = envelope->document.root().member("at_ns");
  if (!at || !proto::read_value(*at, record.at, {})) return std::nullopt;
  const ErrorCode failed = proto::read_message(*envelope, record.event);
  if (!failed) return record;
  if (failed != proto::Errc::unknown_kind) return std::nullopt;
  Said said;
  const auto agent = envelope->document.root().member("agent");
  if (!agent || !proto::read_value(*agent, said.agent, {})) return std::nullopt;
  if (proto::read_message(*envelope, said.message)) return std::nullopt;
  record.event = std::move(said);
  return record;
}

// ---- frames ----

/// The body of the frame that begins here; none: there is no whole and right one.
std::optional<std::string_view> body_at(std::string_view bytes, std::size_t at) {
  if (bytes.size() - at < kFrameHeadBytes) return std::nullopt;
  const std::size_t length = u32_at(bytes, at);
  if (length == 0 || length > kJournalBodyBytesMax) return std::nullopt;
  if (bytes.size() - at - kFrameHeadBytes < length) return std::nullopt;
  const std::string_view body = bytes.substr(at + kFrameHeadBytes, length);
  if (u32_at(bytes, at + 4) != crc_of(bytes.substr(at, 4), body)) return std::nullopt;
  return body;
}

/// Whether a right frame begins behind `at`. Bytes of JSON are no lengths, so that few places are
/// looked at closely; no more than kLooksMax of them.
bool has_frame_behind(std::string_view bytes, std::size_t at) {
  constexpr int kLooksMax = 1000;
  int looks = 0;
  for (++at; bytes.size() - at > kFrameHeadBytes; ++at) {
    if (bytes[at] != 0) continue;
    if (body_at(bytes, at)) return true;
    const std::size_t length = u32_at(bytes, at);
    if (length > 0 && length <= kJournalBodyBytesMax && ++looks > kLooksMax) return false;
  }
  return false;
}

/// Whether it belongs to snapshots only.
bool is_of_snapshot(const JobEvent& event) {
  return std::holds_alternative<JobRestored>(event) ||
         std::holds_alternative<SessionRestored>(event) ||
         std::holds_alternative<LossesRestored>(event);
}

/// An earlier life of a job may be summed up before its snapshot.
bool is_misplaced(const JobEvent& event, const JournalContent& content) {
  const bool in_snapshot = content.records.size() < content.snapshot_records;
  return is_of_snapshot(event) ? !in_snapshot
                               : in_snapshot && !std::holds_alternative<JobOver>(event);
}

// ---- the first line ----

std::optional<std::string> unescaped(std::string_view text) {
  std::string bytes;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      bytes += text[i];
      continue;
    }
    std::uint8_t byte = 0;
    if (text.size() - i < 3) return std::nullopt;
    const char* const digits = text.data() + i + 1;
    const auto [end, failed] = std::from_chars(digits, digits + 2, byte, 16);
    if (failed != std::errc() || end != digits + 2) return std::nullopt;
    bytes += static_cast<char>(byte);
    i += 2;
  }
  return bytes;
}

/// Reads the line; false: it is torn or wrong.
bool read_head(std::string_view bytes, JournalContent& content) {
  const std::size_t end = bytes.substr(0, kHeadBytesMax).find('\n');
  if (end == std::string_view::npos) {
    // No frame follows a line that was never whole: its length would begin with a zero.
    const bool torn = bytes.size() < kHeadBytesMax && bytes.find('\0') == std::string_view::npos;
    content.state = torn ? JournalContent::State::torn : JournalContent::State::damaged;
    content.fault = "its first line is not whole";
    return false;
  }
  content.state = JournalContent::State::damaged;
  std::string_view line = bytes.substr(0, end);
  if (!line.starts_with(kMagic) || line.size() <= kMagic.size() + kVersion.size() + kCrcDigits) {
    content.fault = "its first line is none of a journal";
    return false;
  }
  const std::string_view covered = line.substr(0, line.size() - kCrcDigits);
  if (fmt::format("{:08x}", crc_of(covered)) != line.substr(covered.size())) {
    content.fault = "its first line is damaged";
    return false;
  }
  line = covered.substr(kMagic.size());
  if (!line.starts_with(kVersion)) {
    content.fault = fmt::format("its format is {}, and this rdzvd knows 1 only",
                                line.substr(0, line.find(' ')));
    return false;
  }
  line.remove_prefix(kVersion.size());
  const std::size_t blank = line.find(' ');
  const auto run_id = unescaped(line.substr(0, blank));
  if (!run_id || run_id->empty()) {
    content.fault = "its first line names no job";
    return false;
  }
  line.remove_prefix(blank + 1);
  std::from_chars(line.data(), line.data() + line.size(), content.snapshot_records);
  content.state = JournalContent::State::whole;
  content.run_id = *run_id;
  content.good_bytes = end + 1;
  return true;
}

}  // namespace

std::string escaped_run_id(std::string_view run_id) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
  std::string text;
  for (const char c : run_id) {
    const bool is_plain = kPlain.find(c) != std::string_view::npos && !(c == '.' && text.empty());
    text += is_plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<std::uint8_t>(c));
  }
  return text;
}

std::string journal_head(std::string_view run_id, std::size_t snapshot_records) {
  std::string line = fmt::format("{}{}{} ", kMagic, kVersion, escaped_run_id(run_id));
  if (snapshot_records > 0) line += fmt::format("{} ", snapshot_records);
  return line + fmt::format("{:08x}\n", crc_of(line));
}

void append_journal_frame(std::string& out, const JobRecord& record) {
  std::string body = "{\"at_ns\":";
  proto::write_value(body, record.at, {});
  body += ',';
  write_event(body, record.event);
  body += '}';
  std::string length;
  append_u32(length, static_cast<std::uint32_t>(body.size()));
  out += length;
  append_u32(out, crc_of(length, body));
  out += body;
}

std::string journal_of(const JobSnapshot& snapshot) {
  std::string bytes = journal_head(snapshot.run_id, snapshot.records.size());
  for (const JobRecord& record : snapshot.records) append_journal_frame(bytes, record);
  return bytes;
}

JournalContent read_journal(std::string_view bytes) {
  JournalContent content;
  if (!read_head(bytes, content)) return content;
  while (content.good_bytes < bytes.size()) {
    const std::size_t at = content.good_bytes;
    const auto body = body_at(bytes, at);
    std::optional<JobRecord> record = body ? read_body(*body) : std::nullopt;
    if (record && is_misplaced(record->event, content)) {
      content.state = JournalContent::State::damaged;
      content.fault =
          fmt::format("record {} at byte {} is in the wrong place", content.records.size() + 1, at);
      break;
    }
    if (!record) {
      // A body that is whole and yet no record was not written by this program.
      const bool torn = !body && !has_frame_behind(bytes, at);
      content.state = torn ? JournalContent::State::torn : JournalContent::State::damaged;
      content.fault = fmt::format("record {} at byte {} is {}", content.records.size() + 1, at,
                                  body   ? "none that this rdzvd knows"
                                  : torn ? "cut"
                                         : "damaged");
      break;
    }
    record->run_id = content.run_id;
    content.records.push_back(std::move(*record));
    content.good_bytes += kFrameHeadBytes + body->size();
  }
  // A snapshot got its place as a whole: what is missing of it is no crash's doing.
  if (content.records.size() < content.snapshot_records) {
    const std::string fault = content.fault.empty() ? "its end is missing" : content.fault;
    content = {};
    content.state = JournalContent::State::damaged;
    content.fault = fault;
  }
  return content;
}

}  // namespace ddprun::rdzv
