#include "machine/programs/helper_program.hpp"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include <boost/asio/post.hpp>

namespace ddprun::machine {
namespace {

// Would ask a server of the distribution for symbols, and wait for it.
constexpr std::string_view kDebugServer = "DEBUGINFOD_URLS=";

std::string_view name_of(std::string_view entry) { return entry.substr(0, entry.find('=')); }

/// And those of our own that are called otherwise.
std::vector<std::string> with_our_own(std::vector<std::string> environment) {
  const std::size_t given = environment.size();
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const auto is_given = [&](const std::string& other) {
      return name_of(other) == name_of(*entry);
    };
    const auto end = environment.begin() + static_cast<std::ptrdiff_t>(given);
    if (!std::string_view(*entry).starts_with(kDebugServer) &&
        std::none_of(environment.begin(), end, is_given))
      environment.emplace_back(*entry);
  }
  return environment;
}

}  // namespace

std::string last_line_of(const HelperResult& result) {
  const std::string& text = result.output;
  const auto last = text.find_last_not_of(" \t\r\n");
  if (last == std::string::npos) return "";
  const auto before = text.rfind('\n', last);
  const std::size_t first = before == std::string::npos ? 0 : before + 1;
  return text.substr(first, last + 1 - first);
}

HelperProgram::HelperProgram(boost::asio::io_context& context, const UserState& user)
    : context_(context),
      program_(context, user, {.has_input = true},
               {.output = [this](std::string_view bytes) { take(bytes); },
                .errors = nullptr,
                .ended =
                    [this](const ExitStatus& exit) {
                      result_.in_time = true;
                      result_.exit = exit;
                      finish();
                    },
                .is_full = nullptr}),
      deadline_(context) {}

void HelperProgram::start(HelperRequest request, Done done, Read read) {
  stop();
  done_ = std::move(done);
  read_ = std::move(read);
  result_ = {};
  const ErrorCode failed = program_.start(request.argv.front(), request.argv,
                                          with_our_own(std::move(request.environment)));
  if (failed) {
    result_.problem = failed.message();
    return finish_later();
  }
  if (!request.input.empty()) program_.send(std::move(request.input));
  program_.close_input();
  deadline_.expires_after(request.limit);
  deadline_.async_wait([this, number = number_](ErrorCode ec) {
    if (ec || number != number_) return;
    program_.stop();
    finish();
  });
}

void HelperProgram::stop() {
  ++number_;
  deadline_.cancel();
  done_ = nullptr;
  read_ = nullptr;
  program_.stop();
}

void HelperProgram::child_reaped(pid_t pid) {
  if (pid <= 0 || pid != program_.pid()) return;
  result_.in_time = true;
  program_.forget();
  deadline_.cancel();
  finish_later();
}

void HelperProgram::finish_later() {
  boost::asio::post(context_, [this, number = number_] {
    if (number == number_) finish();
  });
}

void HelperProgram::take(std::string_view bytes) {
  if (read_) read_(bytes);
  const auto room = kHelperOutputMax - result_.output.size();
  result_.output.append(bytes.substr(0, room));
}

void HelperProgram::finish() {
  const Done done = std::move(done_);
  HelperResult result = std::move(result_);
  stop();
  done(std::move(result));
}

}  // namespace ddprun::machine
