#include "machine/programs/helper_program.hpp"

#include <unistd.h>

#include <utility>

#include <boost/asio/post.hpp>

namespace ddprun::machine {
namespace {

// Would ask a server of the distribution for symbols, and wait for it.
constexpr std::string_view kDebugServer = "DEBUGINFOD_URLS=";

std::vector<std::string> helper_environment() {
  std::vector<std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (!std::string_view(*entry).starts_with(kDebugServer)) environment.emplace_back(*entry);
  }
  return environment;
}

}  // namespace

HelperProgram::HelperProgram(boost::asio::io_context& context, const UserState& user)
    : context_(context),
      program_(context, user, {},
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

void HelperProgram::start(const std::vector<std::string>& argv, std::chrono::nanoseconds limit,
                          Done done, Read read) {
  stop();
  done_ = std::move(done);
  read_ = std::move(read);
  result_ = {};
  if (const ErrorCode failed = program_.start(argv.front(), argv, helper_environment())) {
    result_.problem = failed.message();
    boost::asio::post(context_, [this, number = number_] {
      if (number == number_) finish();
    });
    return;
  }
  deadline_.expires_after(limit);
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
