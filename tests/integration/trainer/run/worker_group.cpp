#include "tests/integration/trainer/run/worker_group.hpp"

#include <catch2/catch.hpp>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <random>

#include "trainer/data/shapes.hpp"
#include "trainer/run/exit_codes.hpp"

namespace ddprun::test {
namespace {

constexpr int kKillAttempts = 5;

void put_number(std::ofstream& out, std::uint32_t value) {
  for (const int shift : {24, 16, 8, 0}) out.put(static_cast<char>(value >> shift));
}

void write_idx(const std::filesystem::path& path, const std::vector<std::uint32_t>& sides,
               const std::vector<std::uint8_t>& bytes) {
  std::ofstream out(path, std::ios::binary);
  put_number(out, 0x800U + static_cast<std::uint32_t>(sides.size()));
  for (const std::uint32_t side : sides) put_number(out, side);
  out.write(reinterpret_cast<const char*>(bytes.data()),
            static_cast<std::streamsize>(bytes.size()));
}

/// `name`: train or t10k.
void write_set(const TempDir& directory, const std::string& name, const trainer::ByteImages& set) {
  const auto side = static_cast<std::uint32_t>(set.shape.height);
  const auto count = static_cast<std::uint32_t>(set.pixels.size()) / (side * side);
  write_idx(directory / (name + "-images-idx3-ubyte"), {count, side, side}, set.pixels);
  if (set.masks.empty()) {
    write_idx(directory / (name + "-labels-idx1-ubyte"), {count},
              {set.labels.begin(), set.labels.end()});
  } else {
    write_idx(directory / (name + "-masks-idx3-ubyte"), {count, side, side}, set.masks);
  }
}

}  // namespace

SmallData::SmallData(int side) {
  const trainer::ImageShape shape{.height = side, .width = side, .channels = 1};
  write_set(directory_, "train", trainer::make_shapes(1, 0, 250, shape));
  write_set(directory_, "t10k", trainer::make_shapes(1, 250, 64, shape));
}

SmallMasks::SmallMasks(int side) {
  const trainer::ImageShape shape{.height = side, .width = side, .channels = 1};
  write_set(directory_, "train", trainer::make_shapes(1, 0, 10, shape, trainer::Target::mask));
  write_set(directory_, "t10k", trainer::make_shapes(1, 10, 5, shape, trainer::Target::mask));
}

WorkerGroup::WorkerGroup(const GroupOptions& options) {
  if (options.world_size > 1) {
    auto listener = rdzv::listen_store("127.0.0.1", 0);
    REQUIRE(listener.has_value());
    store_ =
        std::make_unique<rdzv::StoreServer>(rdzv::StoreServer::start(std::move(*listener)).value());
  }
  std::vector<std::string> command = options.prefix;
  command.push_back(options.program.empty() ? program("train") : options.program);
  command.insert(command.end(), options.arguments.begin(), options.arguments.end());
  if (options.json) command.insert(command.end(), {"--json", "--quiet"});
  for (int number = 0; number < options.world_size; ++number) {
    ChildOptions child;
    child.leave_stdin = true;
    child.limit = options.limit;
    child.directory = options.directory;
    child.environment = options.environment;
    if (store_) {
      const auto more = rank_variables(number, options.world_size, *store_, options.restart_count);
      child.environment.insert(child.environment.end(), more.begin(), more.end());
    }
    children_.push_back(std::make_unique<Child>(command, child));
  }
}

std::vector<ChildResult> WorkerGroup::wait() {
  std::vector<ChildResult> results;
  for (const auto& child : children_) results.push_back(child->wait());
  return results;
}

std::string last_line(const std::string& out) {
  const std::size_t end = out.find_last_not_of('\n');
  if (end == std::string::npos) return "";
  const std::size_t start = out.rfind('\n', end);
  return out.substr(start == std::string::npos ? 0 : start + 1, end - (start + 1) + 1);
}

std::vector<std::pair<std::string, std::string>> rank_variables(int rank, int world_size,
                                                                const rdzv::StoreServer& store,
                                                                int restarts) {
  const std::string size = std::to_string(world_size);
  const std::string own = std::to_string(rank);
  return {{"RANK", own},
          {"LOCAL_RANK", own},
          {"WORLD_SIZE", size},
          {"LOCAL_WORLD_SIZE", size},
          {"MASTER_ADDR", store.addr()},
          {"MASTER_PORT", std::to_string(store.port())},
          {"TORCHELASTIC_USE_AGENT_STORE", "True"},
          {"TORCHELASTIC_RESTART_COUNT", std::to_string(restarts)}};
}

std::string train(const GroupOptions& options) {
  WorkerGroup group(options);
  const std::vector<ChildResult> results = group.wait();
  for (const ChildResult& result : results) {
    INFO(result.out << result.err);
    REQUIRE_FALSE(result.timed_out);
    REQUIRE(result.status == 0);
  }
  return last_line(results[0].out);
}

std::string field(const std::string& json_line, const std::string& name) {
  const auto json = nlohmann::json::parse(json_line, nullptr, false);
  if (!json.is_object() || !json.contains(name)) return "";
  return json[name].is_string() ? json[name].get<std::string>() : json[name].dump();
}

std::string weights(const GroupOptions& options) {
  const std::string hash = field(train(options), "weights");
  REQUIRE(hash.size() == 16);
  return hash;
}

std::vector<std::string> three_epochs(const SmallData& data, const std::vector<std::string>& more) {
  std::vector<std::string> arguments{"--data",   data.path(), "--batch",  "8",
                                     "--shards", "4",         "--epochs", "3"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

void fill_tensor(const std::filesystem::path& source, const std::filesystem::path& target,
                 const std::string& name, float value) {
  std::string bytes = text_of(source);
  std::uint64_t header = 0;
  REQUIRE(bytes.size() > sizeof header);
  std::memcpy(&header, bytes.data(), sizeof header);
  const auto rows = nlohmann::json::parse(bytes.substr(sizeof header, header));
  const auto offsets = rows.at(name).at("data_offsets").get<std::vector<std::size_t>>();
  for (std::size_t at = offsets.at(0); at < offsets.at(1); at += sizeof value)
    std::memcpy(&bytes[sizeof header + header + at], &value, sizeof value);
  std::ofstream(target, std::ios::binary) << bytes;
}

std::string undisturbed(const SmallData& data) {
  return weights({.arguments = three_epochs(data, {"--checkpoint-every", "off"})});
}

void kill_and_restart(const SmallData& data, const std::string& base, unsigned seed) {
  INFO("seed " << seed);
  std::mt19937 random(seed);
  const TempDir directory;
  GroupOptions options{
      .world_size = 2,
      .arguments = three_epochs(data, {"--out", directory / "out", "--checkpoint-every", "1"})};
  const int victim = static_cast<int>(random() % 2);
  const int step = 1 + static_cast<int>(random() % 12);
  {
    WorkerGroup group(options);
    REQUIRE(eventually([&] { return latest_step(directory / "out") >= step; },
                       std::chrono::minutes(1)));
    group.rank(victim).signal(SIGKILL);
    const auto results = group.wait();
    const ChildResult& survivor = results[static_cast<std::size_t>(1 - victim)];
    INFO(survivor.err);
    REQUIRE(results[static_cast<std::size_t>(victim)].status == 128 + SIGKILL);
    REQUIRE(survivor.status == trainer::kExitPeerLost);
    CHECK_THAT(survivor.err, Catch::Matchers::Contains("rank " + std::to_string(victim)));
  }
  options.restart_count = 1;
  CHECK(weights(options) == base);
}

std::string train_through_kill(std::vector<std::string> arguments) {
  arguments.insert(arguments.end(), {"--shards=4", "--checkpoint-every=1"});
  // On a busy machine the run can be over before the signal comes; then it is killed in another.
  for (int attempt = 0; attempt < kKillAttempts; ++attempt) {
    const TempDir directory;
    GroupOptions options{.world_size = 2, .arguments = arguments};
    options.arguments.insert(options.arguments.end(), {"--out", directory / "out"});
    {
      WorkerGroup group(options);
      REQUIRE(
          eventually([&] { return latest_step(directory / "out") >= 2; }, std::chrono::minutes(2)));
      group.rank(1).signal(SIGKILL);
      if (group.wait()[1].status != 128 + SIGKILL) continue;
    }
    options.restart_count = 1;
    options.world_size = 3;
    return train(options);
  }
  FAIL("every run ended before it was killed");
  return {};
}

void check_same_result(const std::string& one, const std::string& other, const std::string& score) {
  for (const std::string& what :
       {std::string("weights"), std::string("test_loss"), std::string("train_loss"), score}) {
    INFO(what);
    CHECK_FALSE(field(one, what).empty());
    CHECK(field(other, what) == field(one, what));
  }
}

std::string check_world_sizes(std::vector<std::string> arguments, const std::string& score) {
  arguments.insert(arguments.end(), {"--shards=4", "--checkpoint-every=off"});
  const std::string one = train({.world_size = 1, .arguments = arguments});
  for (const int world_size : {2, 3, 4}) {
    INFO("world size " << world_size);
    for (const std::string& argument : arguments) UNSCOPED_INFO(argument);
    check_same_result(one, train({.world_size = world_size, .arguments = arguments}), score);
  }
  return one;
}

int latest_step(const std::filesystem::path& directory) {
  std::error_code error;
  const std::string name = std::filesystem::read_symlink(directory / "latest", error).string();
  if (error || !name.starts_with("step-")) return -1;
  return std::atoi(name.c_str() + 5);
}

}  // namespace ddprun::test
