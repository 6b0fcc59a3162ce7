// Jobs of several nodes: one ddprun process for each, all on this machine.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>
#include <deque>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "base/unique_handle.hpp"
#include "tests/support/bound_socket.hpp"
#include "tests/support/child.hpp"
#include "tests/support/job.hpp"
#include "tests/support/temp_dir.hpp"

namespace ddprun::test {

/// Free when it was asked for. Several agents must be told the same port beforehand.
inline std::uint16_t free_port() { return bound_socket().port; }

class ManyNodes {
 public:
  ManyNodes() : port(free_port()) {}

  /// The options of a c10d job.
  [[nodiscard]] std::vector<std::string> c10d(const std::string& count) const {
    return {"--nnodes=" + count, "--nproc-per-node=2", "--rdzv-backend=c10d",
            "--rdzv-endpoint=127.0.0.1:" + std::to_string(port)};
  }
  [[nodiscard]] std::vector<std::string> fixed(const std::string& count, int node_rank) const {
    return {"--nnodes=" + count, "--nproc-per-node=2", "--node-rank=" + std::to_string(node_rank),
            "--master-addr=127.0.0.1", "--master-port=" + std::to_string(port)};
  }
  Child& start(std::vector<std::string> options, const std::vector<std::string>& actions = {}) {
    std::vector<std::string> words{program("ddprun"), "--output=pipe", "--grace-period=2"};
    words.insert(words.end(), options.begin(), options.end());
    words.push_back(helper("meeting_worker"));
    words.insert(words.end(), actions.begin(), actions.end());
    return nodes.emplace_back(words, job.settings());
  }
  /// Workers run on until this file exists.
  [[nodiscard]] std::string gate() const { return (folder_ / "gate").string(); }
  void open_gate() const { std::ofstream(folder_ / "gate") << "x"; }

  /// Its workers that live, of all nodes.
  [[nodiscard]] std::vector<pid_t> workers() const {
    auto found = processes_with(job.mark_entry());
    std::erase_if(found, [](pid_t pid) {
      std::ifstream file("/proc/" + std::to_string(pid) + "/comm");
      std::string name;
      std::getline(file, name);
      return name != "meeting_worker";
    });
    return found;
  }

  /// All have ended; nothing of the job is left.
  std::vector<ChildResult> wait() {
    std::vector<ChildResult> results;
    for (Child& node : nodes) results.push_back(node.wait());
    CHECK(processes_with(job.mark_entry()).empty());
    return results;
  }
  /// All have ended, each with exit code 0; nothing of the job is left.
  void succeed() {
    for (const ChildResult& node : wait()) {
      INFO(node.out + node.err);
      CHECK(node.status == 0);
    }
  }

  const std::uint16_t port;
  Job job;
  std::deque<Child> nodes;

 private:
  TempDir folder_;
};

/// What follows each `name=` in lines of meeting_worker, in order of appearance.
inline std::vector<std::string> said(const std::string& out, const std::string& name) {
  std::vector<std::string> found;
  std::istringstream lines(out);
  for (std::string line; std::getline(lines, line);) {
    const auto at = line.find(" " + name + "=");
    if (line.find("met rank=") == std::string::npos || at == std::string::npos) continue;
    const auto begin = at + name.size() + 2;
    found.push_back(line.substr(begin, line.find(' ', begin) - begin));
  }
  return found;
}

inline std::multiset<std::string> all_said(const std::vector<ChildResult>& nodes,
                                           const std::string& name) {
  std::multiset<std::string> all;
  for (const ChildResult& node : nodes)
    for (std::string& one : said(node.out, name)) all.insert(std::move(one));
  return all;
}

/// The job ends with exit code 0 on each node, and each of its workers was started once.
inline void succeed_without_restart(ManyNodes& job, std::size_t workers) {
  const auto nodes = job.wait();
  for (const ChildResult& node : nodes) {
    INFO(node.out + node.err);
    CHECK(node.status == 0);
  }
  const std::vector<std::string> zeros(workers, "0");
  const std::multiset<std::string> never(zeros.begin(), zeros.end());
  CHECK(all_said(nodes, "round") == never);
  CHECK(all_said(nodes, "restarts") == never);
}

}  // namespace ddprun::test
