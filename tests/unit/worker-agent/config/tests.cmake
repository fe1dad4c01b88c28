foreach(noun agent_config command slot_address)
  rlb_unit_test(worker-agent/config/${noun} LINK rlb::agent)
endforeach()
