foreach(noun command keeper_wire networks pool_core process_output resume_store slot_address slot_meter spawner)
  rlb_unit_test(worker-agent/${noun} LINK rlb::agent)
endforeach()
set_tests_properties(unit.worker-agent.resume_store PROPERTIES LABELS "unit;thread")
