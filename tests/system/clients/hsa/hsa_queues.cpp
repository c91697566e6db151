// AQL queues: barrier packets across several of them, async signal handlers, and creation in a loop.
// Usage: hsa_queues [ROUNDS]
#include <atomic>
#include <thread>

#include "hsa_client.h"

using namespace hsa_client;

namespace {

hsa_queue_t* make_queue(hsa_agent_t agent) {
  hsa_queue_t* queue = nullptr;
  HSA_CHECK(
      hsa_queue_create(agent, 64, HSA_QUEUE_TYPE_MULTI, nullptr, nullptr, UINT32_MAX, UINT32_MAX, &queue));
  return queue;
}

void submit_barrier(hsa_queue_t* queue, std::vector<hsa_signal_t> dependencies, hsa_signal_t completion) {
  const std::uint64_t index = hsa_queue_add_write_index_relaxed(queue, 1);
  while (index - hsa_queue_load_read_index_scacquire(queue) >= queue->size) std::this_thread::yield();
  auto* const packet = static_cast<hsa_barrier_and_packet_t*>(queue->base_address) + index % queue->size;
  std::memset(reinterpret_cast<char*>(packet) + 4, 0, sizeof *packet - 4);
  for (std::size_t each = 0; each < dependencies.size(); ++each)
    packet->dep_signal[each] = dependencies[each];
  packet->completion_signal = completion;
  const std::uint16_t header = HSA_PACKET_TYPE_BARRIER_AND << HSA_PACKET_HEADER_TYPE |
                               1 << HSA_PACKET_HEADER_BARRIER |
                               HSA_FENCE_SCOPE_SYSTEM << HSA_PACKET_HEADER_SCACQUIRE_FENCE_SCOPE |
                               HSA_FENCE_SCOPE_SYSTEM << HSA_PACKET_HEADER_SCRELEASE_FENCE_SCOPE;
  __atomic_store_n(reinterpret_cast<std::uint32_t*>(packet), std::uint32_t{header}, __ATOMIC_RELEASE);
  hsa_signal_store_screlease(queue->doorbell_signal, static_cast<hsa_signal_value_t>(index));
}

// Each queue waits for the one before it; the first waits for the host.
void chain_barriers(const System& system) {
  constexpr std::size_t kQueues = 6;
  std::vector<hsa_queue_t*> queues;
  std::vector<hsa_signal_t> signals = {make_signal(1)};
  for (std::size_t each = 0; each < kQueues; ++each) {
    queues.push_back(make_queue(system.gpus[each % system.gpus.size()]));
    signals.push_back(make_signal(1));
  }
  for (std::size_t each = kQueues; each-- > 0;)
    submit_barrier(queues[each], {signals[each]}, signals[each + 1]);
  REQUIRE(hsa_signal_load_relaxed(signals.back()) == 1);
  hsa_signal_subtract_screlease(signals.front(), 1);
  wait_for_zero(signals.back());
  for (const hsa_signal_t signal : signals) {
    REQUIRE(hsa_signal_load_relaxed(signal) == 0);
    HSA_CHECK(hsa_signal_destroy(signal));
  }
  for (hsa_queue_t* queue : queues) HSA_CHECK(hsa_queue_destroy(queue));
}

void call_handlers(const System& system) {
  static std::atomic<int> calls{0};
  constexpr int kSignals = 20;
  hsa_queue_t* const queue = make_queue(system.gpus[0]);
  std::vector<hsa_signal_t> signals;
  for (int each = 0; each < kSignals; ++each) {
    signals.push_back(make_signal(1));
    HSA_CHECK(hsa_amd_signal_async_handler(
        signals.back(), HSA_SIGNAL_CONDITION_LT, 1,
        [](hsa_signal_value_t, void*) {
          ++calls;
          return false;
        },
        nullptr));
  }
  for (const hsa_signal_t signal : signals) submit_barrier(queue, {}, signal);
  while (calls < kSignals) std::this_thread::yield();
  for (const hsa_signal_t signal : signals) HSA_CHECK(hsa_signal_destroy(signal));
  HSA_CHECK(hsa_queue_destroy(queue));
}

void wrap_a_ring(const System& system) {
  constexpr int kPackets = 1000;
  hsa_queue_t* const queue = make_queue(system.gpus[0]);
  const hsa_signal_t done = make_signal(kPackets);
  for (int packet = 0; packet < kPackets; ++packet) submit_barrier(queue, {}, done);
  wait_for_zero(done);
  HSA_CHECK(hsa_signal_destroy(done));
  HSA_CHECK(hsa_queue_destroy(queue));
}

}  // namespace

int main(int argc, char** argv) {
  const long rounds = argc > 1 ? std::strtol(argv[1], nullptr, 0) : 200;
  const System system = discover();
  chain_barriers(system);
  call_handlers(system);
  wrap_a_ring(system);
  for (long round = 0; round < rounds; ++round) {
    hsa_queue_t* const queue = make_queue(system.gpus[0]);
    if (round % 100 == 0) {
      const hsa_signal_t done = make_signal(1);
      submit_barrier(queue, {}, done);
      wait_for_zero(done);
      HSA_CHECK(hsa_signal_destroy(done));
    }
    HSA_CHECK(hsa_queue_destroy(queue));
  }
  return finish();
}
