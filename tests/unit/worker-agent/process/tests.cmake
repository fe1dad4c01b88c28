foreach(noun over_memory port_owner proc_table process_output process_usage warm_targets warm_up)
  rlb_unit_test(worker-agent/process/${noun} LINK rlb::agent)
endforeach()
set_tests_properties(unit.worker-agent.process.process_usage PROPERTIES LABELS "unit;thread")
