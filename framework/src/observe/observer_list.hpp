// SPDX-License-Identifier: Apache-2.0
// Several observers as one.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "observe/observer.hpp"

namespace trireme {

// Tells each of its observers, in the order in which they were added.
class ObserverList : public Observer {
 public:
  void add(std::unique_ptr<Observer> observer) { observers_.push_back(std::move(observer)); }

  void on_start(const StartEvent& event) override {
    for (const auto& observer : observers_) observer->on_start(event);
  }
  void on_step(const StepEvent& event) override {
    for (const auto& observer : observers_) observer->on_step(event);
  }
  void on_ranks(const RanksEvent& event) override {
    for (const auto& observer : observers_) observer->on_ranks(event);
  }
  void on_eval_progress(const EvalProgress& progress) override {
    for (const auto& observer : observers_) observer->on_eval_progress(progress);
  }
  void on_eval(const EvalEvent& event) override {
    for (const auto& observer : observers_) observer->on_eval(event);
  }
  void on_checkpoint(const CheckpointEvent& event) override {
    for (const auto& observer : observers_) observer->on_checkpoint(event);
  }
  void on_end(const EndEvent& event) override {
    for (const auto& observer : observers_) observer->on_end(event);
  }

 private:
  std::vector<std::unique_ptr<Observer>> observers_;
};

}  // namespace trireme
