// rdzvd as a question to a rendezvous that runs: --status and --fence.
#include <sys/resource.h>
#include <sys/stat.h>

#include <deque>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "proto/message_limits.hpp"
#include "proto/session_messages.hpp"
#include "rendezvous/daemon/observer.hpp"
#include "tests/integration/rendezvous/rdzvd_agents.hpp"
#include "tests/support/skip.hpp"
#include "tests/support/temp_dir.hpp"

using namespace ddprun;
using namespace ddprun::test;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;
using proto::Round;
using proto::Stop;

namespace {

const std::string kSecret = "sixteen bytes or more";

/// A user's folder, in which secrets may lie.
struct Home {
  std::string put_secret(const std::string& name, const std::string& secret) const {
    const auto path = folder / name;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path) << secret << "\n";
    REQUIRE(chmod(std::string(path).c_str(), 0600) == 0);
    return path;
  }
  [[nodiscard]] ChildResult ask(Words words, const std::string& secret_variable = "") const {
    ChildOptions options;
    options.environment = {{"HOME", (folder / "").string()},
                           {"XDG_CONFIG_HOME", ""},
                           {"DDPRUN_SECRET_FILE", secret_variable}};
    return run(rdzvd_command(words), options);
  }

  TempDir folder;
};

rdzv::ObserverOptions question(std::uint16_t port, const std::string& run_id = "") {
  rdzv::ObserverOptions options;
  options.endpoint = {"127.0.0.1", port};
  options.run_id = run_id;
  return options;
}

rdzv::StoreListener listener() {
  auto listening = rdzv::listen_store("127.0.0.1", 0);
  REQUIRE(listening.has_value());
  return std::move(*listening);
}

}  // namespace

TEST_CASE("rdzvd --status prints the jobs and nodes of a running rdzvd") {
  const Home home;
  Rdzvd rdzvd({"--listen=127.0.0.1:0"});
  const std::string endpoint = "--endpoint=" + rdzvd.first_line;
  const ChildResult empty = home.ask({"--status", endpoint});
  CHECK(empty.status == 0);
  CHECK(empty.err.empty());
  CHECK(empty.out == "rendezvous at " + rdzvd.first_line +
                         ": 0 jobs; no journal: jobs end with this rendezvous\n");

  boost::asio::io_context context;
  std::deque<ServiceAgent> agents;
  for (const std::string node : {"a", "b"})
    agents.emplace_back(context, node, place(rdzvd, "train-7")).join(2, 3);
  agents.emplace_back(context, "c", place(rdzvd, "other")).join(4, 4);
  REQUIRE(run_until(context, [&] { return agents[2].has<proto::Waiting>(); }));
  const ChildResult all = home.ask({"--status", endpoint});
  CHECK(all.status == 0);
  CHECK_THAT(all.out, Contains(": 2 jobs; "));
  CHECK_THAT(all.out, Contains("\njob other: forming, epoch 1, "));
  CHECK_THAT(all.out, Contains("  nodes: 1 (min 4, max 4); restarts: 0 of 3\n"));
  CHECK_THAT(all.out, Contains("\njob train-7: forming, epoch 1, "));
  CHECK_THAT(all.out, Contains("\n  NODE  GROUP RANK  CONNECTION"));
  for (const std::string node : {"a", "b", "c"})
    CHECK_THAT(all.out, Contains("\n  " + node + "     -           attached, heard "));
  const ChildResult one = home.ask({"--status", endpoint, "--run-id=other"});
  CHECK_THAT(one.out, Contains(": 1 job; "));
  CHECK(one.out.find("train-7") == std::string::npos);

  const ChildResult json = home.ask({"--status", endpoint, "--run-id=other", "--json"});
  CHECK(json.status == 0);
  REQUIRE(json.out.ends_with("}\n"));
  const auto message = proto::decode_service_message(json.out);
  REQUIRE(message.has_value());
  REQUIRE(std::holds_alternative<proto::Status>(*message));
  CHECK(std::get<proto::Status>(*message).jobs.at(0).max_nodes == 4);

  const ChildResult none = home.ask({"--status", endpoint, "--run-id=nowhere"});
  CHECK(none.status == 1);
  CHECK(none.out.empty());
  CHECK_THAT(none.err, StartsWith("rdzvd: there is no job 'nowhere' at " + rdzvd.first_line));
  // No request is repeated or kept: rdzvd has nothing to report.
  CHECK(rdzvd.stop().err.empty());
}

TEST_CASE("rdzvd --status prints all nodes of a job of more than fit into one answer") {
  constexpr int kNodes = proto::kStatusMembersMax + 200;
  rlimit files{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &files) == 0);
  files.rlim_cur = files.rlim_max;
  REQUIRE(setrlimit(RLIMIT_NOFILE, &files) == 0);
  if (files.rlim_max < 3 * kNodes) skip("too few open files are allowed (ulimit -Hn)");
  const Home home;
  Rdzvd rdzvd({"--listen=127.0.0.1:0"});
  boost::asio::io_context context;
  std::deque<ServiceAgent> agents;
  for (int i = 0; i < kNodes; ++i)
    agents.emplace_back(context, "n" + std::to_string(i), place(rdzvd, "large"))
        .join(kNodes + 1, kNodes + 1);
  const std::string endpoint = "--endpoint=" + rdzvd.first_line;
  ChildResult text;
  REQUIRE(run_until(context, [&] {
    context.restart();
    context.run_for(500ms);  // the agents get most of the time, not the questions
    text = home.ask({"--status", endpoint});
    return text.out.find("  nodes: " + std::to_string(kNodes) + " ") != std::string::npos &&
           text.out.find("(has not joined)") == std::string::npos;
  }));
  CHECK(text.status == 0);
  CHECK(text.out.find("more node") == std::string::npos);
  const ChildResult json = home.ask({"--status", endpoint, "--run-id=large", "--json"});
  std::set<std::string> listed;
  std::istringstream lines(json.out);
  int pages = 0;
  for (std::string line; std::getline(lines, line); ++pages) {
    const auto message = proto::decode_service_message(line);
    REQUIRE(message.has_value());
    for (const proto::MemberStatus& member : std::get<proto::Status>(*message).jobs.at(0).members)
      listed.insert(member.node_name);
  }
  CHECK(pages == 2);
  for (const ServiceAgent& agent : agents) {
    CAPTURE(agent.name_);
    CHECK(listed.contains(agent.name_));
    CHECK(text.out.find("\n  " + agent.name_ + " ") != std::string::npos);
  }
}

TEST_CASE("rdzvd --fence gives up a node, for good, and its job goes on without it") {
  const Home home;
  const Words serve = {"--state-dir=" + std::string(home.folder / "state")};
  std::optional<Rdzvd> rdzvd(std::in_place, Words{"--listen=127.0.0.1:0", serve[0]});
  const std::string address = rdzvd->first_line;
  const std::string endpoint = "--endpoint=" + address;
  boost::asio::io_context context;
  std::deque<ServiceAgent> agents;
  for (const std::string node : {"a", "b"})
    agents.emplace_back(context, node, place(*rdzvd, "job")).join(1, 2);
  REQUIRE(run_until(context, [&] { return agents[0].has<Round>() && agents[1].has<Round>(); }));

  const ChildResult alive = home.ask({"--fence=b", "--run-id=job", endpoint});
  CHECK(alive.status == 1);
  CHECK(alive.out.empty());
  CHECK_THAT(alive.err, Contains("the node 'b' may be alive: its agent was heard "));
  const ChildResult unknown = home.ask({"--fence=x", "--run-id=job", endpoint});
  CHECK(unknown.status == 1);
  CHECK(unknown.err == "rdzvd: the rendezvous at " + address +
                           ": no node of the job 'job' is named 'x'; its nodes: a, b\n");

  agents[1].link.reset();  // its connection is reset, which proves nothing
  const auto is_gone = [&] {
    const auto seen = rdzv::observe(question(rdzvd->port, "job"));
    return seen.text.find("gone, silent for ") != std::string::npos;
  };
  REQUIRE(run_until(context, is_gone));
  CHECK_FALSE(agents[0].has<Stop>());
  ChildResult fenced;
  const auto is_fenced = [&] {  // asked once more when it is done, it knows no such node
    if (fenced.status != 0) fenced = home.ask({"--fence=b", "--run-id=job", endpoint});
    return fenced.status == 0;
  };
  REQUIRE(run_until(context, is_fenced));  // two keep-alive periods after its last word
  CHECK_THAT(fenced.out, StartsWith("gave up the node b of job job: its session is lost\n"));
  CHECK_THAT(fenced.out, Contains(": 1 job; the journal is on the disk: "));
  CHECK_THAT(fenced.out, Contains("job job: stopping, round 0"));
  CHECK(fenced.out.find("\n  b ") == std::string::npos);
  REQUIRE(run_until(context, [&] { return agents[0].has<Stop>(); }));
  agents[0].link->send(proto::Stopped{0, {}});
  agents[0].join(1, 2);
  REQUIRE(run_until(context, [&] { return agents[0].last<Round>()->number == 1; }));
  CHECK(agents[0].last<Round>()->group_world_size == 1);

  const ChildResult killed = rdzvd->stop(SIGKILL);
  CHECK_THAT(
      killed.err,
      Contains("job 'job': the node 'b' (agent b) was given up at the request of 127.0.0.1"));
  rdzvd.emplace(Words{"--listen=" + address, serve[0]});
  const ChildResult again = home.ask({"--fence=b", "--run-id=job", endpoint});
  CHECK(again.status == 1);
  CHECK_THAT(again.err, Contains("its nodes: a\n"));
}

TEST_CASE("a client over IPv4 of an rdzvd that listens on IPv6 has its IPv4 address") {
  if (!rdzv::listen_store("::", 0)) skip("no IPv6 here");
  const Home home;
  const Rdzvd rdzvd({"--listen=[::]:0"});
  const std::string endpoint = "--endpoint=127.0.0.1:" + std::to_string(rdzvd.port);
  // Without a secret only loopback may ask.
  const ChildResult none = home.ask({"--fence=a", "--run-id=job", endpoint});
  CHECK(none.status == 1);
  CHECK_THAT(none.err, Contains("there is no job 'job'; the jobs here: none"));
}

TEST_CASE("a rendezvous with a secret answers those that have it") {
  const Home home;
  const std::string secret = home.put_secret("secret", kSecret);
  Rdzvd rdzvd({"--listen=127.0.0.1:0", "--secret-file=" + secret});
  const Words status = {"--status", "--endpoint=" + rdzvd.first_line};
  const auto with_file = [&](const std::string& file) {
    return Words{status[0], status[1], "--secret-file=" + file};
  };
  CHECK(home.ask(with_file(secret)).status == 0);
  CHECK(home.ask(status, secret).status == 0);

  const ChildResult none = home.ask(status);
  CHECK(none.status == 69);
  CHECK(none.out.empty());
  CHECK(none.err == "rdzvd: the rendezvous at " + rdzvd.first_line +
                        " asks for a secret: copy its file here and name it with --secret-file\n");
  const std::string wrong_file = home.put_secret("wrong", "another secret of bytes");
  const ChildResult wrong = home.ask(with_file(wrong_file));
  CHECK(wrong.status == 69);
  CHECK_THAT(wrong.err, Contains(" has another secret than " + wrong_file + ": "));
  CHECK(wrong.err.find("another secret of bytes") == std::string::npos);

  home.put_secret(".config/ddprun/secret", kSecret);
  CHECK(home.ask(status).status == 0);
  CHECK(rdzvd.stop().status == 0);
}

TEST_CASE("rdzvd --status names what is wrong where no rendezvous answers") {
  const Home home;
  SECTION("nothing listens") {
    auto closed = listener();
    const std::string port = std::to_string(closed.port);
    closed.fd.reset();
    const ChildResult result = home.ask({"--status", "--endpoint=" + port});
    CHECK(result.status == 69);
    CHECK(result.out.empty());
    CHECK(result.err == "rdzvd: nothing listens at 127.0.0.1:" + port +
                            ": start rdzvd there, or name the rendezvous with "
                            "--endpoint=HOST:PORT\n");
  }
  SECTION("another program") {
    auto other = listener();
    const auto port = other.port;
    auto store = rdzv::StoreServer::start(std::move(other), {});
    REQUIRE(store.has_value());
    const auto seen = rdzv::observe(question(port));
    CHECK(seen.exit_code == 69);
    CHECK_THAT(seen.text, StartsWith("rdzvd: no rendezvous answers at 127.0.0.1:"));
    CHECK_THAT(seen.text, Contains("PyTorch's store has the port, of a torchrun for example") &&
                              Contains("(the port is in use by ") &&
                              Contains(", pid " + std::to_string(getpid())));
  }
  SECTION("silence") {
    const auto silent = listener();
    const auto seen = rdzv::observe(question(silent.port), 100ms);
    CHECK(seen.exit_code == 69);
    CHECK_THAT(seen.text, Contains(": no answer within 100 ms (the port is in use by "));
  }
  SECTION("no such host") {
    const ChildResult result = home.ask({"--status", "--endpoint=no.such.host.invalid"});
    CHECK(result.status == 69);
    CHECK_THAT(result.err, Contains("no rendezvous answers at no.such.host.invalid:29400: cannot "
                                    "look up no.such.host.invalid: "));
  }
}

TEST_CASE("the rendezvous of one job answers for that job") {
  rdzv::ServiceServerSettings settings;
  settings.service.only_run_id = "train-7";
  auto server = rdzv::ServiceServer::start(listener(), std::move(settings));
  REQUIRE(server.has_value());
  CHECK(rdzv::observe(question(server->port())).exit_code == 0);
  const auto other = rdzv::observe(question(server->port(), "other"));
  CHECK(other.exit_code == 1);
  CHECK_THAT(other.text, Contains("this rendezvous serves the job 'train-7' only"));
}
