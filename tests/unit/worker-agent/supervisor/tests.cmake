foreach(noun child spawner)
  rlb_unit_test(worker-agent/supervisor/${noun} LINK rlb::agent)
endforeach()
