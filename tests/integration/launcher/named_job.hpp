// A job that ddpctl is asked about.
#pragma once

#include <catch2/catch.hpp>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/child.hpp"
#include "tests/support/job.hpp"

namespace ddprun::test {

inline ChildOptions without_stdin() {
  ChildOptions options;
  options.leave_stdin = true;
  return options;
}

/// A job with a run id of its own, since other tests run beside it; its workers run a shell script.
class NamedJob {
 public:
  explicit NamedJob(const std::string& script, const std::vector<std::string>& options = {})
      : NamedJob({"/bin/sh", "-c", script}, options) {}
  explicit NamedJob(const std::vector<std::string>& program,
                    const std::vector<std::string>& options) {
    std::vector<std::string> words{test::program("ddprun"), "--rdzv-id=" + id_,
                                   "--nproc-per-node=2", "--restart-delay=0", "--no-python"};
    words.insert(words.end(), options.begin(), options.end());
    words.insert(words.end(), program.begin(), program.end());
    job_.emplace(words, surroundings_.settings());
  }
  Child& job() { return *job_; }
  [[nodiscard]] const std::string& id() const { return id_; }

  [[nodiscard]] static std::vector<std::string> command(std::vector<std::string> words) {
    words.insert(words.begin(), test::program("ddpctl"));
    return words;
  }
  ChildResult ctl(const std::vector<std::string>& words) {
    return test::run(command(words), without_stdin());
  }
  /// So many ddpctl are connected to it.
  void await_clients(int count) {
    REQUIRE(eventually([&] {
      std::ifstream sockets("/proc/net/unix");
      int found = 0;
      for (std::string line; std::getline(sockets, line);)
        if (line.ends_with("/" + id_) && line.find(" 0001 03 ") != std::string::npos) ++found;
      return found >= count;
    }));
  }
  /// Both workers have printed it.
  void await(const std::string& text) {
    REQUIRE(job_->wait_for([&](const std::string& out, auto&) {
      const auto first = out.find(text);
      return first != std::string::npos && out.find(text, first + 1) != std::string::npos;
    }));
  }
  /// Both have printed it to stderr.
  void await_err(const std::string& text) {
    REQUIRE(job_->wait_for([&](auto&, const std::string& err) {
      const auto first = err.find(text);
      return first != std::string::npos && err.find(text, first + 1) != std::string::npos;
    }));
  }
  /// It has ended, with this code, and nothing of it is left.
  std::string end(int status) {
    const ChildResult result = job_->wait();
    INFO(result.out + result.err);
    CHECK(result.status == status);
    CHECK(processes_with(surroundings_.mark_entry()).empty());
    return result.err;
  }

 private:
  std::string id_ = "ctl-" + unique_mark();
  test::Job surroundings_;
  std::optional<Child> job_;
};

inline constexpr const char* kRunsOn = "echo up; while :; do sleep 0.05; done";

}  // namespace ddprun::test
