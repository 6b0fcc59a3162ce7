#include "launcher/doctor/ask_program.hpp"

#include <sys/wait.h>

#include <csignal>
#include <functional>
#include <optional>

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>

#include "agent/progress/helper_program.hpp"

namespace ddprun::launcher {

std::string answer_of(const std::vector<std::string>& argv, const machine::UserState& user,
                      std::chrono::nanoseconds limit) {
  boost::asio::io_context context(1);
  boost::asio::signal_set children(context, SIGCHLD);
  agent::HelperProgram program(context, user);
  std::optional<agent::HelperResult> result;
  const std::function<void()> await_child = [&] {
    children.async_wait([&](const boost::system::error_code& failed, int) {
      siginfo_t info{};
      if (failed) return;
      if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0)
        program.child_ended(info.si_pid);
      await_child();
    });
  };
  await_child();
  program.start(argv, limit, [&](agent::HelperResult ended) { result = std::move(ended); });
  while (!result) context.run_one();
  const bool good = result->in_time && result->exit && result->exit->success();
  return good ? result->output : std::string();
}

}  // namespace ddprun::launcher
