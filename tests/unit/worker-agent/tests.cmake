foreach(noun background command error_body heir host_settings keeper_kept over_memory pool_core pool_core_turns process_output process_usage proc_table restart_watch resume_store slot_address slot_meter spawner status_page warm_targets warm_up)
  rlb_unit_test(worker-agent/${noun} LINK rlb::agent)
endforeach()
set_tests_properties(unit.worker-agent.background unit.worker-agent.process_usage unit.worker-agent.restart_watch unit.worker-agent.resume_store PROPERTIES LABELS "unit;thread")
