#include <charconv>
#include <string_view>

#include "proto/session_messages.hpp"
#include "tests/fuzz/entries.hpp"
#include "tests/support/checked_session.hpp"

namespace ddprun::test {
namespace {

/// `<` and a message of the service, `>` and one of the agent, `c` for a connection that opens, `-`
/// for one that fails (`--`: is refused), `+` and milliseconds that pass.
void tell(CheckedSession& session, std::string_view line) {
  if (line.empty()) return;
  const char what = line[0];
  line.remove_prefix(1);
  if (what == '<') {
    if (auto message = proto::decode_service_message(line))
      session.take(rdzv::ServiceSaid{std::move(*message)});
  } else if (what == '>') {
    auto message = proto::decode_client_message(line);
    auto* numbered = message ? std::get_if<proto::Numbered>(&*message) : nullptr;
    if (numbered != nullptr) session.take(rdzv::Submitted{std::move(numbered->message), {}});
  } else if (what == 'c') {
    session.take(rdzv::Connected{});
  } else if (what == '-') {
    session.take(rdzv::ConnectionFailed{line.starts_with('-'), "it failed"});
  } else if (what == '+') {
    std::uint32_t milliseconds = 0;
    std::from_chars(line.data(), line.data() + line.size(), milliseconds);
    session.pass(std::chrono::milliseconds(milliseconds % 100'000));
  }
}

}  // namespace

void fuzz_agent_session(const std::uint8_t* data, std::size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  CheckedSession session;
  while (!text.empty()) {
    const std::size_t length = std::min(text.find('\n'), text.size());
    tell(session, text.substr(0, length));
    text.remove_prefix(std::min(length + 1, text.size()));
  }
  session.fall_silent();
}

}  // namespace ddprun::test
