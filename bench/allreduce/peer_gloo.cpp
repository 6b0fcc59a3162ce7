// gloo over TCP on the loopback interface: its ring, its bcube and its halving-doubling.
#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/config.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <map>

#include "bench/allreduce/peer.hpp"

namespace ddprun::bench {
namespace {

std::shared_ptr<gloo::rendezvous::Context> connect(int rank, int world_size,
                                                   const std::string& directory) {
  gloo::transport::tcp::attr attributes;
  attributes.hostname = "127.0.0.1";
  auto device = gloo::transport::tcp::CreateDevice(attributes);
  gloo::rendezvous::FileStore store(directory);
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, world_size);
  context->connectFullMesh(store, device);
  return context;
}

class Collective : public PeerAlgorithm {
 public:
  using Algorithm = gloo::AllreduceOptions::Algorithm;
  Collective(std::shared_ptr<gloo::Context> context, std::vector<float>& data, std::string name,
             Algorithm algorithm)
      : context_(std::move(context)), data_(data), name_(std::move(name)), algorithm_(algorithm) {}

  [[nodiscard]] std::string name() const override { return name_; }
  void all_reduce(std::size_t floats) override {
    gloo::AllreduceOptions options(context_);
    options.setAlgorithm(algorithm_);
    options.setOutput(data_.data(), floats);
    options.setReduceFunction([](void* out, const void* left, const void* right,
                                 std::size_t count) { gloo::sum<float>(out, left, right, count); });
    gloo::allreduce(options);
  }

 private:
  std::shared_ptr<gloo::Context> context_;
  std::vector<float>& data_;
  std::string name_;
  Algorithm algorithm_;
};

class HalvingDoubling : public PeerAlgorithm {
 public:
  HalvingDoubling(std::shared_ptr<gloo::Context> context, std::vector<float>& data)
      : context_(std::move(context)), data_(data) {}

  [[nodiscard]] std::string name() const override { return "gloo halving-doubling"; }
  void all_reduce(std::size_t floats) override {
    auto& algorithm = by_size_[floats];
    if (!algorithm) {
      algorithm = std::make_unique<gloo::AllreduceHalvingDoubling<float>>(
          context_, std::vector<float*>{data_.data()}, static_cast<int>(floats));
    }
    algorithm->run();
  }

 private:
  std::shared_ptr<gloo::Context> context_;
  std::vector<float>& data_;
  std::map<std::size_t, std::unique_ptr<gloo::AllreduceHalvingDoubling<float>>> by_size_;
};

}  // namespace

std::string peer_description() {
  return "gloo " + std::to_string(GLOO_VERSION_MAJOR) + "." + std::to_string(GLOO_VERSION_MINOR) +
         "." + std::to_string(GLOO_VERSION_PATCH) + ", TCP over loopback";
}

std::vector<std::unique_ptr<PeerAlgorithm>> make_peer(int rank, int world_size,
                                                      const std::string& directory,
                                                      std::vector<float>& data) {
  const auto context = connect(rank, world_size, directory);
  std::vector<std::unique_ptr<PeerAlgorithm>> algorithms;
  algorithms.push_back(
      std::make_unique<Collective>(context, data, "gloo ring", Collective::Algorithm::RING));
  algorithms.push_back(
      std::make_unique<Collective>(context, data, "gloo bcube", Collective::Algorithm::BCUBE));
  algorithms.push_back(std::make_unique<HalvingDoubling>(context, data));
  return algorithms;
}

}  // namespace ddprun::bench
