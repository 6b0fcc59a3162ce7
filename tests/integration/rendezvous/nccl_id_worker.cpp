// A worker of nccl_id_test: rank 0 makes an ncclUniqueId and puts it into the store, the others
// wait for it. Each prints the id in hex. Arguments: host, port, rank.
#include <nccl.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "rendezvous/client/store_client.hpp"
#include "tests/support/hex.hpp"

using namespace std::chrono_literals;

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const int rank = std::atoi(argv[3]);
  const auto deadline = ddprun::rdzv::Clock::now() + 60s;
  const auto port = static_cast<std::uint16_t>(std::atoi(argv[2]));
  auto store = ddprun::rdzv::StoreClient::connect(argv[1], port, deadline);
  if (!store) {
    std::fprintf(stderr, "no store: %s\n", store.error().message().c_str());
    return 1;
  }
  ncclUniqueId id{};
  static_assert(sizeof id == 128);
  if (rank == 0) {
    if (const ncclResult_t failed = ncclGetUniqueId(&id); failed != ncclSuccess) {
      std::fprintf(stderr, "ncclGetUniqueId: %s\n", ncclGetErrorString(failed));
      return 1;
    }
    if (!store->set("nccl_id", {id.internal, sizeof id}, deadline)) return 1;
  }
  const auto received = store->get("nccl_id", deadline);
  if (!received || received->size() != sizeof id) return 1;
  std::memcpy(&id, received->data(), sizeof id);
  std::printf("id %s\n", ddprun::test::to_hex({id.internal, sizeof id}).c_str());
  // All leave together, as workers do: the store must not go while a worker still reads.
  return store->add("done", 1, deadline) ? 0 : 1;
}
