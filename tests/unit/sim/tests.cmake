foreach(noun parts scenario workload world)
  rlb_unit_test(sim/${noun} LINK rlb::sim m)
endforeach()
