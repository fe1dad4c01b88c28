foreach(noun counter_client counter_client_fault counter_client_rest counter_client_thread)
  rlb_unit_test(counter/${noun} LINK rlb::counter)
endforeach()
set_tests_properties(unit.counter.counter_client_thread PROPERTIES LABELS "unit;thread")
