// Jobs of ddprun agents that meet in rdzvd, beside the clients of its store.
#include <sys/stat.h>

#include <deque>
#include <fstream>
#include <regex>

#include "tests/integration/rendezvous/raw_client.hpp"
#include "tests/integration/rendezvous/rdzvd_agents.hpp"
#include "tests/support/temp_dir.hpp"

using namespace ddprun;
using namespace ddprun::test;
using namespace std::chrono_literals;
using proto::Round;

namespace {

std::string secret_file(const TempDir& dir, const std::string& secret) {
  const std::string path = dir / "secret";
  std::ofstream(path) << secret << "\n";
  REQUIRE(chmod(path.c_str(), 0600) == 0);
  return path;
}

}  // namespace

TEST_CASE("agents of two jobs and clients of the store meet at one port of rdzvd") {
  Rdzvd rdzvd({"--listen=127.0.0.1:0", "--log-level=info"});
  rdzv::StoreClient store = rdzvd.client();
  REQUIRE(store.set("k", "before", soon()));
  boost::asio::io_context context;
  std::deque<ServiceAgent> agents;
  for (const std::string job : {"one", "two"})
    for (const std::string node : {"a", "b"})
      agents.emplace_back(context, node, place(rdzvd, job)).join(2, 2);
  const auto all = [&](auto holds) {
    return run_until(context, [&] { return std::all_of(agents.begin(), agents.end(), holds); });
  };
  REQUIRE(all([](const auto& agent) { return agent.template has<Round>(); }));
  for (std::size_t i = 0; i < agents.size(); ++i) {
    CHECK(agents[i].last<Round>()->world_size == 2);
    CHECK(agents[i].last<Round>()->group_rank == static_cast<int>(i % 2));
  }
  // The store has gone on, for this client and for new ones.
  CHECK(store.get("k", soon()).value() == "before");
  CHECK(rdzvd.client().add("n", 1, soon()).value() == 1);

  for (int i = 0; i < 2; ++i) agents[static_cast<std::size_t>(i)].link->send(proto::WorkersDone{0});
  REQUIRE(run_until(context, [&] {
    return agents[0].has<proto::Finished>() && agents[1].has<proto::Finished>();
  }));
  CHECK(agents[0].last<proto::Finished>()->outcome == proto::Finished::Outcome::succeeded);
  CHECK_FALSE(agents[2].has<proto::Finished>());  // a job of its own
  const ChildResult result = rdzvd.stop();
  CHECK(result.status == 0);
  CHECK(result.out == rdzvd.first_line + "\n");
  // Agents are none of the store's clients.
  CHECK(result.err.find("stopped by a signal after 2 clients") != std::string::npos);
}

TEST_CASE("agents without rdzvd's secret are refused, and its store needs none") {
  const TempDir dir;
  const std::string secret = "sixteen bytes or more";
  Rdzvd rdzvd({"--listen=127.0.0.1:0", "--secret-file=" + secret_file(dir, secret)});
  boost::asio::io_context context;
  ServiceAgent right(context, "right", place(rdzvd, "job", secret));
  ServiceAgent wrong(context, "wrong", place(rdzvd, "job", "another secret of bytes"));
  ServiceAgent none(context, "none", place(rdzvd, "job"));
  right.join(1, 1);
  wrong.join(1, 1);
  none.join(1, 1);
  REQUIRE(run_until(context, [&] {
    return right.has<Round>() && wrong.has<proto::Finished>() && none.has<proto::Finished>();
  }));
  CHECK(wrong.last<proto::Finished>()->reason.find("it has another secret than the rendezvous") !=
        std::string::npos);
  CHECK(none.last<proto::Finished>()->reason.find("asks for a secret") != std::string::npos);
  CHECK_FALSE(none.has<Round>());
  CHECK(rdzvd.client().add("n", 1, soon()).value() == 1);
  const ChildResult result = rdzvd.stop();
  CHECK(result.status == 0);
  CHECK(result.err.find(secret) == std::string::npos);
  const std::regex closed("closed 127\\.0\\.0\\.1:[0-9]+: not from a peer that has the secret");
  CHECK(std::regex_search(result.err, closed));
}

TEST_CASE("tenants of one rdzvd have their own secrets, and see their own jobs only") {
  const TempDir dir;
  const auto put = [&](const std::string& name, const std::string& secret) {
    std::ofstream(dir / name) << secret << "\n";
    REQUIRE(chmod(std::string(dir / name).c_str(), 0600) == 0);
    return std::string(dir / name);
  };
  const std::string vision = "the secret of vision";
  const std::string nlp = "another secret, of nlp";
  const std::string vision_file = put("vision-*", vision);
  Rdzvd rdzvd({"--listen=127.0.0.1:0", "--secret-dir=" + std::string(dir / "")});
  boost::asio::io_context context;
  ServiceAgent right(context, "right", place(rdzvd, "vision-1", vision));
  ServiceAgent early(context, "early", place(rdzvd, "nlp", nlp));
  right.join(1, 1);
  early.join(1, 1);
  REQUIRE(run_until(context, [&] { return right.has<Round>() && early.has<proto::Finished>(); }));
  CHECK(early.last<proto::Finished>()->reason.find("it has another secret than the rendezvous") !=
        std::string::npos);
  const std::string nlp_file = put("nlp", nlp);  // rdzvd runs on
  ServiceAgent late(context, "late", place(rdzvd, "nlp", nlp));
  ServiceAgent stranger(context, "stranger", place(rdzvd, "vision-1", nlp));
  late.join(1, 1);
  stranger.join(1, 1);
  REQUIRE(run_until(context, [&] { return late.has<Round>() && stranger.has<proto::Finished>(); }));
  CHECK_FALSE(stranger.has<Round>());

  const auto ask = [&](const std::string& file, const Words& more) {
    Words words = {"--status", "--endpoint=" + rdzvd.first_line, "--secret-file=" + file};
    words.insert(words.end(), more.begin(), more.end());
    return run(rdzvd_command(words));
  };
  const ChildResult shown = ask(vision_file, {"--run-id=vision-*"});
  CHECK(shown.status == 0);
  CHECK(shown.out.find(": 1 job;") != std::string::npos);
  CHECK(shown.out.find("job vision-1: running") != std::string::npos);
  const ChildResult refused = ask(vision_file, {"--run-id=nlp"});
  CHECK(refused.status == 69);
  CHECK(refused.err.find("has another secret than " + vision_file) != std::string::npos);
  const ChildResult all = ask(vision_file, {});
  CHECK(all.status == 69);
  CHECK(all.err.find("--run-id='PREFIX*'") != std::string::npos);
  CHECK(ask(nlp_file, {"--run-id=nlp"}).out.find("job nlp: running") != std::string::npos);
  CHECK(rdzvd.stop().status == 0);
}

TEST_CASE("a folder of secrets that cannot be used is wrong use of rdzvd") {
  const TempDir dir;
  const ChildResult none =
      run(rdzvd_command({"--listen=127.0.0.1:0", "--secret-dir=" + std::string(dir / "none")}));
  CHECK(none.status == 2);
  CHECK(none.err.find("rdzvd: --secret-dir: cannot use the folder ") == 0);
  const ChildResult both = run(rdzvd_command(
      {"--secret-dir=" + std::string(dir / ""), "--secret-file=" + secret_file(dir, "s")}));
  CHECK(both.status == 2);
  CHECK(both.err.find("give one of them") != std::string::npos);
  const ChildResult limit = run(rdzvd_command({"--max-tenant-jobs=3"}));
  CHECK(limit.status == 2);
  CHECK(limit.err.find("only with --secret-dir=DIR") != std::string::npos);
}

TEST_CASE("with a secret rdzvd warns of its store only") {
  const TempDir dir;
  Rdzvd rdzvd({"--listen=0.0.0.0:0", "--secret-file=" + secret_file(dir, "sixteen bytes or more")});
  const ChildResult result = rdzvd.stop();
  CHECK(result.err.find("the store's protocol has no authentication") != std::string::npos);
  CHECK(result.err.find("join and stop") == std::string::npos);
}

TEST_CASE("an agent joins the rdzvd that replaces the one that it knew") {
  boost::asio::io_context context;
  std::optional<Rdzvd> rdzvd(std::in_place, Words{"--listen=127.0.0.1:0"});
  const std::string address = rdzvd->first_line;
  ServiceAgent agent(context, "a", place(*rdzvd, "job"), 1s);
  agent.join(1, 1);
  REQUIRE(run_until(context, [&] { return agent.has<Round>(); }));
  CHECK(rdzvd->stop(SIGKILL).status == 128 + SIGKILL);
  rdzvd.emplace(Words{"--listen=" + address});
  REQUIRE(run_until(context, [&] { return agent.has<proto::Stop>(); }));
  agent.link->send(proto::Stopped{0, {}});
  agent.join(1, 1);
  REQUIRE(run_until(context, [&] { return agent.last<Round>()->number == 1; }));
  CHECK(rdzvd->stop().status == 0);
}

TEST_CASE("an agent's first bytes may come one by one") {
  Rdzvd rdzvd({"--listen=127.0.0.1:0"});
  RawClient slow(rdzvd.port);
  rdzv::StoreClient store = rdzvd.client();
  // A frame that is no hello, which only the service takes as one.
  for (const char byte : std::string("\0\0\0\x02{}", 6)) {
    REQUIRE(slow.send(std::string(1, byte)));
    REQUIRE(store.add("n", 1, soon()));  // the store has seen the byte by now, or sees more at once
  }
  // The service's hello, and the end.
  CHECK(slow.receive(64 * 1024).find("rendezvous") != std::string::npos);
  CHECK(slow.closed());
  const ChildResult result = rdzvd.stop();
  CHECK(result.err.find("rendezvous: closed 127.0.0.1") != std::string::npos);
  CHECK(result.err.find("store: closed") == std::string::npos);
}

TEST_CASE("a secret file that cannot be used is wrong use of rdzvd") {
  const TempDir dir;
  const std::string path = secret_file(dir, "sixteen bytes or more");
  REQUIRE(chmod(path.c_str(), 0644) == 0);
  const ChildResult open_to_all =
      run(rdzvd_command({"--listen=127.0.0.1:0", "--secret-file=" + path}));
  CHECK(open_to_all.status == 2);
  CHECK(open_to_all.err.find("rdzvd: --secret-file: the secret file " + path) == 0);
  CHECK(open_to_all.err.find("chmod 600 " + path) != std::string::npos);
  const ChildResult none = run(rdzvd_command({"--listen=127.0.0.1:0", "--secret-file="}));
  CHECK(none.status == 2);
  CHECK(none.out.empty());
}
