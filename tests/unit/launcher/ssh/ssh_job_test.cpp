// The launcher of a job on several hosts: what the ends of connections mean.
#include "launcher/ssh/ssh_job.hpp"

#include <catch2/catch.hpp>
#include <csignal>

#include "base/exit_codes.hpp"
#include "launcher/ssh/why_not_started.hpp"

using Catch::Matchers::Contains;

using namespace ddprun;
using namespace ddprun::launcher;
using namespace std::chrono_literals;

namespace {

constexpr ExitStatus kOk{false, 0, false};
constexpr ExitStatus kSshFailed{false, 255, false};

/// A job with actions that are texts: "start 0", "plan 1", "signal 0 15", "tell ...", "end 69".
class Run {
 public:
  explicit Run(std::vector<std::string> hosts, int min_nodes = 0, int connecting_max = 32)
      : job_({.hosts = hosts,
              .version = "1",
              .min_nodes = min_nodes > 0 ? min_nodes : static_cast<int>(hosts.size()),
              .connecting_max = connecting_max}) {}

  std::string on(const SshEvent& event) {
    std::string text;
    for (const SshAction& action : job_.on(event, now))
      text += (text.empty() ? "" : "; ") + std::visit([&](const auto& a) { return of(a); }, action);
    return text;
  }
  std::string all_running() {
    std::string text = on(Begin{});
    for (std::size_t i = 0; text.find("start " + std::to_string(i)) != std::string::npos; ++i)
      on(Greeted{i, "1"});
    return text;
  }
  std::string tick() {
    REQUIRE(job_.deadline());
    now = *job_.deadline();
    return on(Tick{});
  }

  [[nodiscard]] SshJob::Clock::duration left() const { return job_.deadline().value() - now; }

  SshJob::Clock::time_point now{};
  std::optional<Conclude> end;

 private:
  static std::string of(const StartHost& a) { return "start " + std::to_string(a.host); }
  static std::string of(const SendPlan& a) { return "plan " + std::to_string(a.host); }
  static std::string of(const SendSignal& a) {
    return "signal " + std::to_string(a.host) + " " + std::to_string(a.signal);
  }
  static std::string of(const CloseHost& a) { return "close " + std::to_string(a.host); }
  static std::string of(const KillHost& a) { return "kill " + std::to_string(a.host); }
  static std::string of(const NodeIsGone& a) { return "gone " + std::to_string(a.host); }
  static std::string of(const Tell& a) { return "tell " + a.line; }
  std::string of(const Conclude& a) {
    end = a;
    return "end " + std::to_string(a.exit_code);
  }

  SshJob job_;
};

NodeEnd node_end(int code, bool has_culprit = false, bool reports = false) {
  NodeEnd end;
  end.exit_code = code;
  end.has_culprit = has_culprit;
  end.reports = reports;
  end.text = "code " + std::to_string(code) + (has_culprit ? " culprit" : "") + "\n";
  if (reports) end.json = "json";
  return end;
}

NodeEnd cancelled(int code) {
  NodeEnd end = node_end(code, false, true);
  end.cancelled = true;
  return end;
}

}  // namespace

TEST_CASE("so many connections are made at a time, and the next one when one has answered") {
  Run run({"a", "b", "c", "d"}, 0, 2);
  CHECK(run.on(Begin{}) == "start 0; start 1");
  CHECK(run.on(Greeted{1, "1"}) == "plan 1; start 2");
  CHECK(run.on(Greeted{0, "1"}) == "plan 0; start 3");
}

TEST_CASE("a job that succeeds ends when all connections have ended") {
  Run run({"a", "b"});
  run.all_running();
  run.on(Ended{0, node_end(0, false, true)});
  CHECK(run.on(Exited{0, kOk, "", ""}).empty());
  run.on(Ended{1, node_end(0)});
  CHECK(run.on(Exited{1, kOk, "", ""}) == "end 0");
  CHECK(run.end->json == "json");
}

TEST_CASE("the report is that of the culprit's node, and the file that of the chosen one") {
  Run run({"a", "b", "c"});
  run.all_running();
  run.on(Ended{0, node_end(3, false, true)});
  run.on(Ended{1, node_end(3, true)});
  run.on(Ended{2, node_end(3)});
  for (std::size_t i = 0; i < 2; ++i) CHECK(run.on(Exited{i, {false, 3}, "", ""}).empty());
  CHECK(run.on(Exited{2, {false, 3}, "", ""}) == "end 3");
  REQUIRE(run.end->report);
  CHECK(run.end->report->text == "code 3 culprit\n");
  CHECK(run.end->json == "json");
}

TEST_CASE("all hosts that cannot be reached are named, and then the job ends") {
  Run run({"a", "b", "c"});
  run.on(Begin{});
  run.on(Greeted{0, "1"});
  CHECK(run.on(Exited{1, kSshFailed, "ssh: no route", ""}) ==
        "tell b cannot be reached: ssh: no route; "
        "tell 2 of 3 hosts are left, and the job needs 3: it ends; signal 0 15");
  CHECK(run.on(Exited{2, kSshFailed, "ssh: no name", ""}) ==
        "tell c cannot be reached: ssh: no name");
  run.on(Ended{0, cancelled(143)});
  CHECK(run.on(Exited{0, {false, 143}, "", ""}) == "end 69");
  CHECK_FALSE(run.end->report);
}

TEST_CASE("a host that answers too late for a job that ends gets no plan") {
  Run run({"a", "b"});
  run.on(Begin{});
  run.on(Exited{1, kSshFailed, "x", ""});
  CHECK(run.on(Greeted{0, "1"}) == "close 0");
  CHECK(run.on(Exited{0, kOk, "", ""}) == "end 69");
}

TEST_CASE("an elastic job goes on without the hosts that it does not need") {
  Run run({"a", "b", "c"}, 2);
  run.on(Begin{});
  run.on(Greeted{0, "1"});
  run.on(Greeted{1, "1"});
  CHECK(run.on(Exited{2, kSshFailed, "x", ""}) == "tell c cannot be reached: x");
  run.on(Ended{0, node_end(0, false, true)});
  run.on(Ended{1, node_end(0)});
  CHECK(run.on(Exited{0, kOk, "", ""}).empty());
  CHECK(run.on(Exited{1, kOk, "", ""}) == "end 0");
}

TEST_CASE("a ddprun of another version is refused by name") {
  Run run({"a"});
  run.on(Begin{});
  CHECK(run.on(Greeted{0, "2"}) ==
        "tell a: ddprun there has version 2, this one has 1; install the same version there, or "
        "type --remote-path=PATH; kill 0");
  CHECK(run.on(Exited{0, {true, SIGKILL}, "", ""}) == "end 69");
}

TEST_CASE("a node is known to be gone when its first process has ended by itself") {
  Run run({"a", "b", "c", "d", "e"}, 1);
  run.all_running();
  CHECK(run.on(Exited{0, {false, kExitInternal}, "", ""}) ==
        "tell a: ddprun there exited with code 70; gone 0");
  CHECK(run.on(Exited{1, kSshFailed, "x", ""}).find("gone") == std::string::npos);
  CHECK(run.on(Exited{2, {false, kExitLeftovers}, "", ""}).find("gone") == std::string::npos);
  // A shell around it may tell so of the signal that killed it.
  CHECK(run.on(Exited{3, {false, kExitSignalBase + SIGKILL}, "", ""}).find("gone") ==
        std::string::npos);
}

TEST_CASE("a node that is lost ends a job that needs it") {
  Run run({"a", "b"});
  run.all_running();
  CHECK(run.on(Exited{1, kSshFailed, "Timeout, server b not responding.", ""}) ==
        "tell b is lost: its connection ended: Timeout, server b not responding.; "
        "tell 1 of 2 hosts is left, and the job needs 2: it ends; signal 0 15");
  run.on(Ended{0, cancelled(143)});
  CHECK(run.on(Exited{0, {false, 143}, "", ""}) == "end 69");
}

TEST_CASE("a node that refuses to start gives its exit code to the job") {
  Run run({"a"});
  run.all_running();
  CHECK(run.on(Exited{0, {false, 127}, "", ""}) ==
        "tell a: ddprun there exited with code 127; gone 0; end 127");
}

TEST_CASE("the first signal is passed on, the second one too, and the end has a limit") {
  Run run({"a", "b", "c"}, 0, 2);
  run.on(Begin{});
  run.on(Greeted{0, "1"});
  CHECK(run.on(Signalled{SIGINT}) == "signal 0 2; kill 1; kill 2");
  CHECK(run.left() == 90s);
  run.now += 1s;
  CHECK(run.on(Signalled{SIGINT}) == "signal 0 2");
  CHECK(run.left() == 60s);  // without the grace period
  CHECK(run.on(Exited{1, {true, SIGKILL}, "", ""}).empty());
  CHECK(run.on(Exited{2, {true, SIGKILL}, "", ""}).empty());
  CHECK(run.tick() ==
        "tell a has not ended in time: its connection is closed, which ends what is left there; "
        "kill 0");
  CHECK(run.on(Exited{0, {true, SIGKILL}, "", ""}) == "end 130");
}

TEST_CASE("a third signal waits for no host") {
  Run run({"a"});
  run.all_running();
  CHECK(run.on(Signalled{SIGINT}) == "signal 0 2");
  run.now += 1s;
  CHECK(run.on(Signalled{SIGINT}) == "signal 0 2");
  run.now += 99ms;  // with the second one it is one wish
  CHECK(run.on(Signalled{SIGTERM}) == "signal 0 15");
  run.now += 1s;
  CHECK(run.on(Signalled{SIGINT}) ==
        "tell a was not awaited: its connection is closed, which ends what is left there; kill 0");
  CHECK(run.on(Exited{0, {true, SIGKILL}, "", ""}) == "end 130");
}

TEST_CASE("a job that a signal ended has the report of a node") {
  Run run({"a"});
  run.all_running();
  run.on(Signalled{SIGINT});
  run.on(Ended{0, cancelled(130)});
  CHECK(run.on(Exited{0, {false, 130}, "", ""}) == "end 130");
  CHECK(run.end->report);
}

TEST_CASE("a host that never answers is given up") {
  Run run({"a"});
  run.on(Begin{});
  CHECK(run.tick().starts_with("tell a: no answer from ddprun there within 90 s"));
  CHECK(run.on(Exited{0, {true, SIGKILL}, "", ""}) == "end 69");
}

TEST_CASE("ssh that is missing is told once") {
  Run run({"a", "b"});
  run.on(Begin{});
  CHECK(run.on(CannotStart{0, "ssh was not found"}) == "tell ssh was not found");
  CHECK(run.on(CannotStart{1, "ssh was not found"}) == "end 2");
}

TEST_CASE("why a host does not take part has ssh's own words and a remedy") {
  const auto why = [](int code, const std::string& words, const std::string& banner = "") {
    return why_not_started("b2", "ssh", {false, code, false}, words, banner);
  };
  CHECK(why(255, "ssh: Could not resolve hostname b2: Name or service not known") ==
        "b2 cannot be reached: ssh: Could not resolve hostname b2: Name or service not known");
  CHECK(why(255, "me@b2: Permission denied (publickey,password).").find("ssh-copy-id b2") !=
        std::string::npos);
  CHECK(why(255, "Host key verification failed.").find("connect once by hand (ssh b2)") !=
        std::string::npos);
  CHECK(why(127, "sh: 1: exec: ddprun: not found") ==
        "b2: ddprun was not found there: sh: 1: exec: ddprun: not found; install it there, or type "
        "--remote-path=PATH");
  CHECK(why(126, "").find("cannot be executed") != std::string::npos);
  CHECK(why(2, "ddprun: unknown option --ssh-node").find("older") != std::string::npos);
  CHECK(why(1, "", "This account is closed\n") ==
        "b2: its login shell exited with code 1 before ddprun answered: This account is closed; "
        "try ssh b2 true, which must succeed");
  CHECK(why_lost("b2", kSshFailed, "") ==
        "b2 is lost: its connection ended, and ssh tells no reason, as when nothing has come from "
        "there for 15 s; look at the host and at the network");
  CHECK(last_words("a\n\nb\r\nc\nd\n") == "b; c; d");
  CHECK(last_words("").empty());
}

TEST_CASE("remedies are typed with the user's own ssh command") {
  const auto why = [](const std::string& ssh, int code, const std::string& words) {
    return why_not_started("b2", ssh, {false, code, false}, words, "");
  };
  const std::string key = "Host key verification failed.";
  CHECK_THAT(why("ssh -p 22022", 255, key),
             Contains("by hand (ssh -p 22022 b2) to accept its key, or type --ssh='ssh -p 22022 "
                      "-o StrictHostKeyChecking=accept-new'"));
  CHECK_THAT(why("ssh -i \"a key\"", 255, key),
             Contains("--ssh='ssh -i \"a key\" -o StrictHostKeyChecking=accept-new'"));
  const std::string denied = "me@b2: Permission denied (publickey).";
  CHECK_THAT(why("/usr/bin/ssh -4 -p 22022 -oUser=me -o 'ProxyCommand=nc %h' -F cfg", 255, denied),
             Contains("(ssh-copy-id -p 22022 -o User=me -o 'ProxyCommand=nc %h' -F cfg b2)"));
  CHECK_THAT(why("ssh -l me -i id -J gate -oPort=1", 255, denied),
             Contains("(ssh-copy-id -o User=me -i id -o ProxyJump=gate -o Port=1 b2)"));
  CHECK_THAT(why("tsh ssh", 255, denied),
             Contains("give your key to the host, and") && !Contains("ssh-copy-id"));
  CHECK_THAT(why("ssh -p 22022", 1, ""), Contains("try ssh -p 22022 b2 true, which must succeed"));
  // The job passes its command on.
  const auto line_of = [](const SshEvent& event, SshJob::Clock::time_point now) {
    SshJob job({.hosts = {"b2"}, .ssh = "ssh -p 1", .version = "1"});
    job.on(Begin{}, {});
    for (const SshAction& action : job.on(event, now)) {
      if (const Tell* tell = std::get_if<Tell>(&action)) return tell->line;
    }
    return std::string();
  };
  CHECK_THAT(line_of(Exited{0, kSshFailed, key, ""}, {}), Contains("(ssh -p 1 b2)"));
  const SshJob::Clock::time_point late(std::chrono::hours(1));
  CHECK_THAT(line_of(Tick{}, late), Contains("try ssh -p 1 b2 true"));
}
