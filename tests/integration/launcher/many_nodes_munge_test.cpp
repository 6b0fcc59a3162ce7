// --rdzv-auth=munge, and what Slurm jobs do without it, with real programs and a real munged.
#include <filesystem>
#include <fstream>

#include "tests/integration/launcher/running_rdzvd.hpp"
#include "tests/support/real_munge.hpp"

using namespace ddprun;
using namespace ddprun::test;
using Catch::Matchers::Contains;

namespace {

constexpr const char* kWarning = "this job has no secret: anybody who can connect";

/// Options of a c10d job with that socket of munged.
std::vector<std::string> nodes_with(const ManyNodes& job, const std::string& socket,
                                    const std::string& more = "--rdzv-auth=munge") {
  auto options = job.c10d("2");
  options.insert(options.end(), {"--rdzv-conf=munge_socket=" + socket, more});
  return options;
}

Child& start_in_slurm(ManyNodes& job, const std::vector<std::string>& options) {
  std::vector<std::string> words{program("ddprun")};
  words.insert(words.end(), options.begin(), options.end());
  words.push_back(helper("meeting_worker"));
  ChildOptions settings = job.job.settings();
  settings.environment.emplace_back("SLURM_JOB_ID", "7");
  return job.nodes.emplace_back(words, settings);
}

/// The words in front of a command that another user runs, with `more` behind them.
std::vector<std::string> as_another_user(const std::vector<std::string>& more = {}) {
  if (geteuid() != 0) skip("only root can be another user");
  std::vector<std::string> words{"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"};
  words.insert(words.end(), more.begin(), more.end());
  auto command = words;
  command.insert(command.end(), {program("ddprun"), "--version"});
  if (const auto version = run(command); version.status != 0)
    skip("another user cannot run ddprun here: " + version.err);
  return words;
}

std::string file_with(const TempDir& folder, const std::string& name, const std::string& text) {
  std::filesystem::create_directories((folder / name).parent_path());
  std::ofstream(folder / name) << text;
  std::filesystem::permissions(folder / name, std::filesystem::perms::owner_read);
  return (folder / name).string();
}

bool waits_for_another(const std::string&, const std::string& err) {
  return err.find("1 of 2 nodes have joined") != std::string::npos;
}

}  // namespace

TEST_CASE("nodes of one user meet by MUNGE without a secret, and their workers restart") {
  const RealMunge munge;
  ManyNodes job;
  auto options = nodes_with(job, munge.socket());
  options.emplace_back("--max-restarts=1");
  for (int i = 0; i < 2; ++i) job.start(options, {"fail", "0", "0", "3"});
  for (const ChildResult& node : job.wait()) {
    INFO(node.out + node.err);
    CHECK(node.status == 0);
    CHECK(node.out.find("restarts=1") != std::string::npos);
    CHECK_THAT(node.err, !Contains(kWarning));
  }
}

TEST_CASE("in a Slurm job nodes use MUNGE without being told to") {
  const RealMunge munge;
  ManyNodes job;
  const auto options = nodes_with(job, munge.socket(), "--rdzv-auth=auto");
  Child& first = start_in_slurm(job, options);
  REQUIRE(first.wait_for(waits_for_another));
  const ChildResult stranger =
      job.start(nodes_with(job, "/nowhere,join_timeout=2", "--rdzv-auth=auto")).wait();
  CHECK(stranger.status == 69);
  // A secret that the user has for other jobs does not stand in the way.
  const TempDir home;
  file_with(home, "ddprun/secret", "sixteen bytes or more");
  for (const std::string& folder : {home.path().string(), std::string()}) {
    ChildOptions settings;
    settings.environment = {{"HOME", "/nonexistent"}, {"XDG_CONFIG_HOME", folder}};
    const ChildResult status =
        run({program("rdzvd"), "--status", "--endpoint=127.0.0.1:" + std::to_string(job.port)},
            settings);
    CHECK(status.status == 69);
    CHECK_THAT(status.err, Contains("it lets nodes of the same user join by MUNGE, but MUNGE"));
  }
  start_in_slurm(job, options);
  CHECK(first.wait().status == 0);
  CHECK(job.nodes.back().wait().status == 0);
}

TEST_CASE("in a Slurm job nodes that cannot use MUNGE meet without it") {
  ManyNodes job;
  auto options = nodes_with(job, "/nowhere", "--rdzv-auth=auto");
  options.emplace_back("--log-level=info");
  for (int i = 0; i < 2; ++i) start_in_slurm(job, options);
  job.succeed();
  // One of them has the rendezvous.
  CHECK_THAT(job.nodes[0].err() + job.nodes[1].err(),
             Contains("nodes do not prove their user to the rendezvous: MUNGE") &&
                 !Contains("does not prove by MUNGE"));
}

TEST_CASE("in a Slurm job a node with a secret joins a rendezvous that has none, but MUNGE") {
  const RealMunge munge;
  const TempDir folder;
  ManyNodes job;
  auto options = nodes_with(job, munge.socket(), "--rdzv-auth=auto");
  REQUIRE(start_in_slurm(job, options).wait_for(waits_for_another));
  options.push_back("--rdzv-secret-file=" + file_with(folder, "secret", "sixteen bytes or more"));
  start_in_slurm(job, options);
  for (const ChildResult& node : job.wait()) {
    INFO(node.out + node.err);
    CHECK(node.status == 0);
    CHECK_THAT(node.err, !Contains(kWarning) && !Contains("has no secret"));
  }
}

TEST_CASE("in a Slurm job a node that has MUNGE warns of a rendezvous that does not use it") {
  const RealMunge munge;
  ManyNodes job;
  REQUIRE(job.start(nodes_with(job, "/nowhere", "--rdzv-auth=auto")).wait_for(waits_for_another));
  start_in_slurm(job, nodes_with(job, munge.socket(), "--rdzv-auth=auto"));
  const auto nodes = job.wait();
  for (const ChildResult& node : nodes) CHECK(node.status == 0);
  CHECK_THAT(nodes[1].err, Contains("the rendezvous at 127.0.0.1:" + std::to_string(job.port) +
                                    " does not prove by MUNGE that it is of this node's user"));
}

TEST_CASE("a node waits for a munged that is started later") {
  const RealMunge munge;
  const TempDir folder;
  ManyNodes job;
  REQUIRE(job.start(nodes_with(job, munge.socket())).wait_for(waits_for_another));
  const std::string later = (folder / "socket").string();
  REQUIRE(job.start(nodes_with(job, later)).wait_for([](const auto&, const auto& err) {
    return err.find("by MUNGE, but MUNGE: ") != std::string::npos;
  }));
  std::filesystem::create_symlink(munge.socket(), later);
  job.succeed();
}

TEST_CASE("a Slurm job in a user namespace, where MUNGE takes root for somebody else, works") {
  auto command = as_another_user({"unshare", "--user", "--map-root-user"});
  const RealMunge munge;
  ManyNodes job;
  auto options = nodes_with(job, munge.socket(), "--rdzv-auth=auto");
  command.push_back(program("ddprun"));
  command.insert(command.end(), options.begin(), options.end());
  auto by_munge = command;
  command.insert(command.end(), {"--log-level=info", "--no-python", "/bin/true"});
  ChildOptions settings = job.job.settings();
  std::erase_if(settings.environment, [](const auto& one) { return one.first == "TMPDIR"; });
  settings.environment.emplace_back("SLURM_JOB_ID", "7");
  for (int i = 0; i < 2; ++i) job.nodes.emplace_back(command, settings);
  std::string all;
  for (const ChildResult& node : job.wait()) {
    INFO(node.out + node.err);
    CHECK(node.status == 0);
    all += node.err;
  }
  CHECK_THAT(all,
             Contains("nodes do not prove their user to the rendezvous: this node cannot read"));
  by_munge.insert(by_munge.end(), {"--rdzv-auth=munge", "--no-python", "/bin/true"});
  const ChildResult refused = run(by_munge, settings);
  CHECK(refused.status != 0);
  CHECK_THAT(refused.err, Contains("--rdzv-auth=munge: this node cannot read its own credential"));
}

TEST_CASE("a node that cannot use MUNGE is told why, and so are those that wait for it") {
  const RealMunge munge;
  ManyNodes job;
  Child& host = job.start(nodes_with(job, munge.socket()));
  REQUIRE(host.wait_for(waits_for_another));
  Child& other = job.start(nodes_with(job, "/nowhere/munge.socket,join_timeout=2"));
  const ChildResult refused = other.wait();
  CHECK(refused.status == 69);
  CHECK_THAT(refused.err, Contains("it lets nodes of the same user join by MUNGE, but MUNGE: ") &&
                              Contains("/nowhere/munge.socket"));
  CHECK(host.wait_for([](const auto&, const auto& err) {
    return err.find("it has not proven by MUNGE that it is of the rendezvous's user") !=
           std::string::npos;
  }));
  host.signal(SIGTERM);
  host.wait();
}

TEST_CASE("another user's processes cannot join by MUNGE") {
  auto command = as_another_user();
  const RealMunge munge;
  ManyNodes job;
  command.push_back(program("ddprun"));
  const auto options = nodes_with(job, munge.socket());
  command.insert(command.end(), options.begin(), options.end());
  command.insert(command.end(), {"--no-python", "/bin/true"});
  Child host(command, job.job.settings());
  REQUIRE(host.wait_for(waits_for_another));
  const ChildResult refused = job.start(options).wait();
  CHECK(refused.status == 69);
  CHECK_THAT(refused.err, Contains("it belongs to another user's job"));
  host.signal(SIGTERM);
  host.wait();
}

TEST_CASE("where MUNGE must prove the nodes' user, a rendezvous without it is refused") {
  const RealMunge munge;
  const Rdzvd rdzvd;
  ManyNodes job;
  auto options = rdzvd.options("1:2", kShortLease);
  options.emplace_back("--rdzv-auth=munge");
  job.start(options);
  const ChildResult node = std::move(job.wait().front());
  CHECK(node.status == 69);
  CHECK_THAT(node.err, Contains("it proves nothing by MUNGE, and --rdzv-auth=munge asks for that"));
}
