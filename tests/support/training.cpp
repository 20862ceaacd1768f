// SPDX-License-Identifier: Apache-2.0
#include "support/training.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include "app/declared.hpp"
#include "comm/threads.hpp"
#include "models.hpp"
#include "trireme/app.hpp"

namespace trireme::test {
namespace {

class Recorder : public Observer {
 public:
  explicit Recorder(TrainingRun& run) : run_(run) {}
  void on_step(const StepEvent& event) override {
    run_.losses.push_back(event.loss);
    run_.metrics.push_back(event.metric);
    run_.rates.push_back(event.lr);
    run_.norms.push_back(event.grad_norm);
    run_.sent_bytes.push_back(event.comm_sent_bytes);
    run_.saturated.push_back(event.comm_saturated);
    run_.underflowed.push_back(event.comm_underflowed);
  }
  void on_eval(const EvalEvent& event) override { run_.evaluations.push_back(event); }
  void on_checkpoint(const CheckpointEvent& event) override { run_.checkpoints.push_back(event); }
  void on_end(const EndEvent& event) override { run_.end = event; }

 private:
  TrainingRun& run_;
};

std::vector<at::Tensor> copies(const std::vector<NamedTensor>& tensors) {
  std::vector<at::Tensor> result;
  for (const NamedTensor& t : tensors) result.push_back(t.tensor.detach().contiguous().clone());
  return result;
}

}  // namespace

Registry all_parts() {
  Registry registry = builtin();
  add_models(registry);
  return registry;
}

Config config_of(const std::string& yaml, const Registry& registry) {
  return parse_config({.file = "test.yaml", .text = yaml, .overrides = {}},
                      declared_options(registry))
      .config;
}

TrainingRun train(const Config& config, const TrainingSetup& setup, const Registry& registry) {
  TrainingRun run;
  const auto body = [&](Communicator& world) {
    at::set_num_threads(1);
    TrainingRun own = train_together(world, config, setup, registry);
    if (world.rank() == 0) run = std::move(own);
  };
  run_as_threads(setup.ranks, body, {.ranks_per_node = setup.ranks_per_node});
  return run;
}

TrainingRun train_together(Communicator& world, const Config& config, const TrainingSetup& setup,
                           const Registry& registry) {
  TrainingRun run;
  const bool first = world.rank() == 0;
  Recorder recorder(run);
  Session session(config, registry, world);
  Trainer& trainer = session.make_trainer(
      {.observer = first ? &recorder : nullptr,
       .checkpoints = setup.checkpoints,
       .stop_requested = [&] { return setup.stop_requested && setup.stop_requested(world.rank()); },
       .take_save_request =
           [&] { return setup.take_save_request && setup.take_save_request(world.rank()); }});
  if (!setup.restore.empty()) trainer.restore(setup.restore);
  if (setup.before_run) setup.before_run(session, world);
  trainer.run();
  if (!first) return run;
  run.parameters = copies(session.replica().trained);
  run.buffers = copies(session.replica().buffers);
  run.state = trainer.state();
  return run;
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size() || a.empty()) throw std::logic_error("sequences of different length");
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!std::isfinite(a[i]) || !std::isfinite(b[i])) throw std::logic_error("not finite");
    largest = std::max(largest, std::abs(a[i] - b[i]));
  }
  return largest;
}

bool bitwise_equal(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  if (a.size() != b.size() || a.empty()) throw std::logic_error("different numbers of tensors");
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i].nbytes() != b[i].nbytes()) return false;
    if (std::memcmp(a[i].const_data_ptr(), b[i].const_data_ptr(), a[i].nbytes()) != 0) return false;
  }
  return true;
}

}  // namespace trireme::test
