foreach(noun parts scenario workload)
  rlb_unit_test(sim/${noun} LINK rlb::sim m)
endforeach()
