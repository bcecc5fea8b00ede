#!/usr/bin/env bash
# Runs a Spark driver or executor if Spark on Kubernetes starts the container as one, and otherwise a marquee command.
set -euo pipefail

case "${1:-}" in
driver)
    shift
    exec spark-submit --deploy-mode client --conf "spark.driver.bindAddress=$SPARK_DRIVER_BIND_ADDRESS" "$@"
    ;;
executor)
    # Spark passes the JVM options of an executor in environment variables that are numbered from 0.
    options=()
    for ((number = 0; ; number++)); do
        name=SPARK_JAVA_OPT_$number
        [ -n "${!name+set}" ] || break
        options+=("${!name}")
    done
    exec java "${options[@]}" "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
        -cp "${SPARK_CONF_DIR:-$SPARK_HOME/conf}:$SPARK_HOME/jars/*${SPARK_CLASSPATH:+:$SPARK_CLASSPATH}" \
        org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
        --driver-url "$SPARK_DRIVER_URL" \
        --executor-id "$SPARK_EXECUTOR_ID" \
        --cores "$SPARK_EXECUTOR_CORES" \
        --app-id "$SPARK_APPLICATION_ID" \
        --hostname "$SPARK_EXECUTOR_POD_IP" \
        --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" \
        --podName "$SPARK_EXECUTOR_POD_NAME"
    ;;
*)
    exec marquee "$@"
    ;;
esac
